package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	binDir = ".cache/bin"

	startTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second

	annotationComposedName = "crossplane.io/composition-resource-name"
	resultAPIVersion       = "render.crossplane.io/v1beta1"
)

// process is our function, running on a loopback port.
type process struct {
	target string
	log    string
	stop   func()
	exited chan struct{}
}

// startFunction builds and starts our function and returns when it accepts
// connections.
func startFunction(ctx context.Context, root string) (*process, error) {
	binary, err := filepath.Abs(filepath.Join(root, binDir, "function-rig"))
	if err != nil {
		return nil, err
	}

	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "./fn")
	build.Dir = root

	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build the function: %w\n%s", err, out)
	}

	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}

	log, err := os.CreateTemp("", "function-rig-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // The function has a descriptor of its own.

	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, binary, "--insecure", "--address="+address, "--metrics-address=")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout

	p := &process{target: "dns:///" + address, log: log.Name(), exited: make(chan struct{})}
	p.stop = func() {
		cancel()
		<-p.exited
		os.Remove(p.log) //nolint:errcheck // Nothing depends on it.
	}

	if err := cmd.Start(); err != nil {
		close(p.exited)
		p.stop()

		return nil, fmt.Errorf("cannot start the function: %w", err)
	}

	go func() {
		defer close(p.exited)
		cmd.Wait() //nolint:errcheck // Its log tells more than its exit code.
	}()

	if err := p.waitReady(ctx, address); err != nil {
		defer p.stop()
		return nil, fmt.Errorf("cannot start the function on %s: %w\n%s", address, err, p.readLog())
	}

	return p, nil
}

func (p *process) waitReady(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	for {
		if err := dial(ctx, address); err == nil {
			return nil
		}

		select {
		case <-p.exited:
			return errors.New("it exited")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// died tells whether the function has exited. It waits a moment: a broken
// connection is seen before the exit.
func (p *process) died() bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(200 * time.Millisecond):
		return false
	}
}

func (p *process) readLog() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}

	return string(b)
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot find a free port: %w", err)
	}

	return l.Addr().String(), l.Close()
}

func dial(ctx context.Context, address string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}

	return c.Close()
}

// output is what a render gave.
type output struct {
	xr       *unstructured.Unstructured
	composed []*unstructured.Unstructured
	// deleted was observed and is no longer desired, so Crossplane would delete it.
	deleted []*unstructured.Unstructured
	results []*unstructured.Unstructured

	// yaml is all of it, in an order that depends on the content only.
	yaml string
}

// render runs a case through Crossplane's engine, which calls the function at
// the target.
func render(ctx context.Context, root, target string, c renderCase) (output, error) {
	cli, core := filepath.Join(root, binDir, "crossplane-cli"), filepath.Join(root, binDir, "crossplane-core")
	for _, tool := range []string{cli, core} {
		if _, err := os.Stat(tool); err != nil {
			return output{}, fmt.Errorf("%s is missing: run make tools", tool)
		}
	}

	functions, err := functionsFile("pkg.crossplane.io/v1", c.function, target)
	if err != nil {
		return output{}, err
	}
	defer os.Remove(functions) //nolint:errcheck // Nothing depends on it.

	args := []string{
		"composition", "render", c.xr, c.composition, functions,
		"--xrd=" + c.xrd, "--crossplane-binary=" + core, "--include-full-xr", "--include-function-results",
	}
	if c.required != "" {
		args = append(args, "--required-resources="+c.required)
	}

	if c.observed != "" {
		args = append(args, "--observed-resources="+c.observed)
	}

	return runCLI(ctx, cli, args, c.observed)
}

// runCLI runs a CLI that renders, and reads what it printed.
func runCLI(ctx context.Context, cli string, args []string, observed string) (output, error) {
	cmd := exec.CommandContext(ctx, cli, args...)
	stdout, stderr := &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr

	if err := cmd.Run(); err != nil {
		return fatal(stderr.String(), err)
	}

	return parse(stdout, observed)
}

// functionsFile writes the Function that makes the engine call the target.
func functionsFile(apiVersion, name, target string) (string, error) {
	fn := map[string]any{
		"apiVersion": apiVersion,
		"kind":       "Function",
		"metadata": map[string]any{
			"name": name,
			"annotations": map[string]any{
				"render.crossplane.io/runtime":                    "Development",
				"render.crossplane.io/runtime-development-target": target,
			},
		},
	}

	b, err := yaml.Marshal(fn)
	if err != nil {
		return "", err
	}

	f, err := os.CreateTemp("", "functions-*.yaml")
	if err != nil {
		return "", err
	}

	_, err = f.Write(b)

	return f.Name(), errors.Join(err, f.Close())
}

// fatal returns a run that the function ended with a Fatal result. The CLI then
// prints nothing but an error, which becomes a result like the others.
func fatal(stderr string, err error) (output, error) {
	_, message, found := strings.Cut(stderr, "returned a fatal result: ")
	if !found {
		return output{}, fmt.Errorf("cannot render: %w\n%s", err, stderr)
	}

	result := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resultAPIVersion,
		"kind":       "Result",
		"severity":   "Fatal",
		"message":    strings.TrimSpace(message),
	}}

	text, err := yaml.Marshal(result)

	return output{results: []*unstructured.Unstructured{result}, yaml: "---\n" + string(text)}, err
}

// parse reads what the CLI printed. The engine sorts neither composed resources
// by kind nor results at all, so both are sorted here.
func parse(stdout io.Reader, observed string) (output, error) {
	docs, err := readDocuments(stdout)
	if err != nil {
		return output{}, fmt.Errorf("cannot read what the CLI printed: %w", err)
	}

	if len(docs) == 0 {
		return output{}, errors.New("the CLI printed nothing")
	}

	slices.SortFunc(docs[1:], func(a, b document) int {
		return cmp.Or(
			cmp.Compare(rank(a.object), rank(b.object)),
			cmp.Compare(a.object.GetKind(), b.object.GetKind()),
			cmp.Compare(a.object.GetName(), b.object.GetName()),
			cmp.Compare(a.text, b.text),
		)
	})

	out := output{xr: docs[0].object}
	text := &strings.Builder{}
	desired := map[string]bool{}

	for i, d := range docs {
		fmt.Fprintf(text, "---\n%s\n", strings.TrimSpace(strings.TrimPrefix(d.text, "---\n")))

		switch {
		case i == 0:
		case d.object.GetKind() == "Result":
			out.results = append(out.results, d.object)
		default:
			out.composed = append(out.composed, d.object)
			desired[d.object.GetAnnotations()[annotationComposedName]] = true
		}
	}

	if observed != "" {
		f, err := os.Open(observed)
		if err != nil {
			return output{}, err
		}
		defer f.Close() //nolint:errcheck // Only read.

		docs, err := readDocuments(f)
		if err != nil {
			return output{}, fmt.Errorf("cannot read %s: %w", observed, err)
		}

		slices.SortFunc(docs, func(a, b document) int { return cmp.Compare(title(a.object), title(b.object)) })

		for _, d := range docs {
			if !desired[d.object.GetAnnotations()[annotationComposedName]] {
				out.deleted = append(out.deleted, d.object)
				fmt.Fprintf(text, "# deleted: %s\n", title(d.object))
			}
		}
	}

	out.yaml = text.String()

	return out, nil
}

// rank puts results after resources.
func rank(o *unstructured.Unstructured) int {
	if o.GetAPIVersion() == resultAPIVersion {
		return 1
	}

	return 0
}

func title(o *unstructured.Unstructured) string {
	return o.GetKind() + "/" + o.GetName()
}

// document is an object and how it was written.
type document struct {
	text   string
	object *unstructured.Unstructured
}

func readDocuments(r io.Reader) ([]document, error) {
	docs := []document{}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(r))

	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}

		if err != nil {
			return nil, err
		}

		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			return nil, err
		}

		if len(o.Object) > 0 {
			docs = append(docs, document{text: string(text), object: o})
		}
	}
}

func readObject(path string) (*unstructured.Unstructured, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Only read.

	docs, err := readDocuments(f)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}

	if len(docs) != 1 {
		return nil, fmt.Errorf("%s holds %d objects, not one", path, len(docs))
	}

	return docs[0].object, nil
}
