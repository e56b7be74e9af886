// Program render renders a case of test/render: it starts our function on a free
// loopback port, runs the Crossplane CLI with Crossplane's own engine on the
// case, and stops the function again. The YAML goes to standard output, a short
// summary to standard error.
//
// With -target it uses a function that already runs there, for example in a
// debugger, and starts none.
//
// Run it in the root of the repository.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var (
	errFatal       = errors.New("the function ended with a fatal result: Crossplane would apply nothing and delete nothing")
	errInterrupted = errors.New("interrupted")
)

func main() {
	target := flag.String("target", "", "address of a running function, such as dns:///127.0.0.1:9443")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: render [-target ADDRESS] CASE")
		flag.PrintDefaults()
	}
	flag.Parse()

	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)

	err := run(ctx, *target, flag.Arg(0))
	if ctx.Err() != nil {
		err = errInterrupted
	}

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, target, name string) error {
	c, err := loadCase(".", name)
	if err != nil {
		return err
	}

	log := func() string { return "" }

	if target == "" {
		fn, err := startFunction(ctx, ".")
		if err != nil {
			return err
		}
		defer fn.stop()

		target = fn.target
		log = func() string {
			if fn.died() {
				return "\nthe function crashed:\n" + fn.readLog()
			}

			return ""
		}
	} else if err := dial(ctx, strings.TrimPrefix(target, "dns:///")); err != nil {
		return fmt.Errorf("no function is running at %s: %w", target, err)
	}

	out, err := render(ctx, ".", target, c)
	if err != nil {
		return fmt.Errorf("%w%s", err, log())
	}

	fmt.Print(out.yaml)
	fmt.Fprint(os.Stderr, summary(c, out))

	if out.xr == nil {
		return errFatal
	}

	return nil
}

// summary returns the conditions of the composite resource, a line for each
// composed resource, and warnings.
func summary(c renderCase, out output) string {
	text := &strings.Builder{}
	fmt.Fprintf(text, "\n%s: %s\n", c.name, c.description)

	if out.xr != nil {
		fmt.Fprintf(text, "\n%s\n", title(out.xr))

		conditions, _, _ := unstructured.NestedSlice(out.xr.Object, "status", "conditions")
		for _, cond := range conditions {
			text.WriteString(conditionLine(cond))
		}

		fmt.Fprintf(text, "\n%d composed\n", len(out.composed))
	}

	for _, o := range out.composed {
		note := ""
		if o.GetAnnotations()["crossplane.io/paused"] == "true" {
			note = " (paused)"
		}

		fmt.Fprintf(text, "  %-24s %s%s\n", o.GetAnnotations()[annotationComposedName], title(o), note)
	}

	for _, o := range out.deleted {
		fmt.Fprintf(text, "  %-24s %s (deleted)\n", o.GetAnnotations()[annotationComposedName], title(o))
	}

	for _, r := range out.results {
		severity, _, _ := unstructured.NestedString(r.Object, "severity")
		message, _, _ := unstructured.NestedString(r.Object, "message")

		if severity != "Normal" {
			fmt.Fprintf(text, "\n%s: %s\n", severity, message)
		}
	}

	return text.String()
}

func conditionLine(cond any) string {
	fields, _ := cond.(map[string]any)

	// These two are about Crossplane, not about the case.
	if fields["type"] == "Synced" || fields["type"] == "Responsive" {
		return ""
	}

	message := ""
	if m, _ := fields["message"].(string); m != "" {
		message = ": " + m
	}

	return fmt.Sprintf("  %-14s %-8s %s%s\n", fields["type"], fields["status"], fields["reason"], message)
}
