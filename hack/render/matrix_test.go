package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var matrix = flag.Bool("matrix", false, "render with older CLIs too: make matrix") //nolint:gochecknoglobals // A flag of the test.

// TestOlderCLIs renders through the engines of older CLIs, which know neither required resources nor XRDs, and must compose
// the same.
func TestOlderCLIs(t *testing.T) {
	if !*matrix {
		t.Skip("their CLIs take ten minutes of CPU each to build: run make matrix")
	}

	watchSources(t)

	clis := map[string]struct {
		reason     string
		binary     string
		command    []string
		apiVersion string
		// conditions tells whether it shows those that functions set.
		conditions bool
	}{
		"v1.20": {
			reason: "The last CLI with an engine of its own.",
			binary: "crossplane-cli-1.20", command: []string{"render"}, apiVersion: "pkg.crossplane.io/v1", conditions: true,
		},
		"v1.16": {
			reason: "It calls functions by their v1beta1 API, and knows Functions by theirs.",
			binary: "crossplane-cli-1.16", command: []string{"beta", "render"}, apiVersion: "pkg.crossplane.io/v1beta1",
		},
	}

	fn, err := startFunction(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer fn.stop()

	for version, cli := range clis {
		for _, name := range []string{"admitted", "over-quota"} {
			t.Run(version+"/"+name, func(t *testing.T) {
				c, err := loadCase(root, name)
				if err != nil {
					t.Fatal(err)
				}

				functions, err := functionsFile(cli.apiVersion, c.function, fn.target)
				if err != nil {
					t.Fatal(err)
				}
				defer os.Remove(functions) //nolint:errcheck // Nothing depends on it.

				args := append(slices.Clone(cli.command), c.xr, c.composition, functions, "--include-full-xr", "--include-function-results",
					"--extra-resources="+c.required, "--observed-resources="+c.observed)

				got, err := runCLI(context.Background(), filepath.Join(root, binDir, cli.binary), args, c.observed)
				if err != nil {
					t.Fatalf("%s: %v\n%s", cli.reason, err, fn.readLog())
				}

				want, err := render(t.Context(), root, fn.target, c)
				if err != nil {
					t.Fatal(err)
				}

				if diff := cmp.Diff(essence(want, cli.conditions), essence(got, cli.conditions)); diff != "" {
					t.Errorf("%s: -v2.5, +%s:\n%s", cli.reason, version, diff)
				}
			})
		}
	}
}

// essence is what a function has a say in. How an engine names and owns what is composed, and what it says about itself in
// the status, differs between versions.
func essence(out output, withConditions bool) map[string]any {
	all := map[string]any{}

	for _, list := range [][]*unstructured.Unstructured{out.composed, out.deleted, out.results} {
		for _, o := range list {
			// Our function makes no normal results.
			if o.Object["severity"] == "Normal" {
				continue
			}

			o.SetGenerateName("")
			o.SetOwnerReferences(nil)
			all[title(o)+" "+o.GetAnnotations()[annotationComposedName]] = o.Object
		}
	}

	status, _, _ := unstructured.NestedMap(out.xr.Object, "status")
	conditions := map[any]any{}

	list, _ := status["conditions"].([]any)
	for _, c := range list {
		fields, _ := c.(map[string]any)
		switch fields["type"] {
		case "Ready", "Synced", "Responsive":
		default:
			conditions[fields["type"]] = []any{fields["status"], fields["reason"], fields["message"]}
		}
	}

	delete(status, "claimConditionTypes")
	delete(status, "conditions")

	if withConditions {
		all["conditions"] = conditions
	}

	all["status"] = status

	return all
}
