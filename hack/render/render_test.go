package main

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

var update = flag.Bool("update", false, "rewrite the golden files") //nolint:gochecknoglobals // A flag of the test.

// TestCases renders every case through Crossplane's engine and compares with its
// golden file. Rendering again, with required and observed resources in another
// order, must give the same bytes.
func TestCases(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the Crossplane CLI and core")
	}

	watchSources(t)

	cases, err := loadCases(root)
	if err != nil {
		t.Fatal(err)
	}

	if len(cases) == 0 {
		t.Fatalf("no cases in %s", casesDir)
	}

	fn, err := startFunction(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}

	// Parallel subtests still run when this function returns.
	t.Cleanup(fn.stop)

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			mustRender := func(c renderCase) string {
				out, err := render(t.Context(), root, fn.target, c)
				if err != nil {
					t.Fatalf("%v\n%s", err, fn.readLog())
				}

				return out.yaml
			}

			got := mustRender(c)
			golden := filepath.Join(filepath.Dir(c.xr), "want.yaml")

			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}

			want, err := os.ReadFile(golden)
			if err != nil {
				t.Errorf("%v: run make golden", err)
			}

			if diff := diffLines(string(want), got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", golden, diff)
			}

			c.required, c.observed = reversed(t, c.required), reversed(t, c.observed)
			if diff := diffLines(got, mustRender(c)); diff != "" {
				t.Errorf("rendered again, with required and observed resources in reverse order: -first, +second:\n%s", diff)
			}
		})
	}
}

func diffLines(want, got string) string {
	return cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
}

// watchSources makes go test run again, instead of reporting a cached result,
// when something changed that goes into the function: it notes which files and
// folders a test itself looks at, and not what a started program does.
func watchSources(t *testing.T) {
	t.Helper()

	for _, path := range []string{"go.mod", "go.sum", "apis", "charts", "fn", "input", "internal", "strategies", "hack/tools", casesDir} {
		err := filepath.WalkDir(filepath.Join(root, path), func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}

			_, err = os.Stat(path)

			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// reversed returns the path of a copy with the documents in reverse order.
func reversed(t *testing.T, path string) string {
	t.Helper()

	if path == "" {
		return ""
	}

	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	docs, err := readDocuments(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}

	text := &strings.Builder{}
	for _, d := range slices.Backward(docs) {
		text.WriteString("---\n" + strings.TrimPrefix(d.text, "---\n") + "\n")
	}

	out := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(out, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	return out
}

const printed = `---
apiVersion: rig-gateway.io/v1alpha1
kind: XClusterBlueprint
metadata:
  name: payments
status:
  conditions:
  - {type: Synced, status: "True", reason: ReconcileSuccess}
  - {type: Admitted, status: "False", reason: QuotaExceeded, message: short 16 cpu}
---
apiVersion: helm.crossplane.io/v1beta1
kind: Release
metadata:
  annotations:
    crossplane.io/composition-resource-name: release
    crossplane.io/paused: "true"
  name: payments
---
apiVersion: kubernetes.crossplane.io/v1alpha2
kind: Object
metadata:
  annotations:
    crossplane.io/composition-resource-name: barrier
  name: payments-1
---
apiVersion: render.crossplane.io/v1beta1
kind: Result
message: b
severity: Normal
---
apiVersion: render.crossplane.io/v1beta1
kind: Result
message: a
severity: Warning
`

const sorted = `---
apiVersion: rig-gateway.io/v1alpha1
kind: XClusterBlueprint
metadata:
  name: payments
status:
  conditions:
  - {type: Synced, status: "True", reason: ReconcileSuccess}
  - {type: Admitted, status: "False", reason: QuotaExceeded, message: short 16 cpu}
---
apiVersion: kubernetes.crossplane.io/v1alpha2
kind: Object
metadata:
  annotations:
    crossplane.io/composition-resource-name: barrier
  name: payments-1
---
apiVersion: helm.crossplane.io/v1beta1
kind: Release
metadata:
  annotations:
    crossplane.io/composition-resource-name: release
    crossplane.io/paused: "true"
  name: payments
---
apiVersion: render.crossplane.io/v1beta1
kind: Result
message: a
severity: Warning
---
apiVersion: render.crossplane.io/v1beta1
kind: Result
message: b
severity: Normal
`

const observedRelease = `apiVersion: helm.crossplane.io/v1beta1
kind: Release
metadata:
  annotations:
    crossplane.io/composition-resource-name: release
  name: payments
`

const observedObserver = `apiVersion: kubernetes.crossplane.io/v1alpha2
kind: Object
metadata:
  annotations:
    crossplane.io/composition-resource-name: observer
  name: payments-2
`

func TestParse(t *testing.T) {
	type want struct {
		yaml    string
		summary string
	}

	cases := map[string]struct {
		reason   string
		observed string
		want     want
	}{
		"Sorted": {
			reason: "What is composed comes by kind and name, then results.",
			want: want{
				yaml: sorted,
				summary: `
small: A small cluster.

XClusterBlueprint/payments
  Admitted       False    QuotaExceeded: short 16 cpu

2 composed
  barrier                  Object/payments-1
  release                  Release/payments (paused)

Warning: a
`,
			},
		},
		"Deleted": {
			reason:   "What is observed and not desired any more is named: Crossplane would delete it.",
			observed: observedRelease + "---\n" + observedObserver,
			want: want{
				yaml: sorted + "# deleted: Object/payments-2\n",
				summary: `
small: A small cluster.

XClusterBlueprint/payments
  Admitted       False    QuotaExceeded: short 16 cpu

2 composed
  barrier                  Object/payments-1
  release                  Release/payments (paused)
  observer                 Object/payments-2 (deleted)

Warning: a
`,
			},
		},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			observed := ""
			if tc.observed != "" {
				observed = filepath.Join(t.TempDir(), "observed.yaml")
				writeFile(t, observed, tc.observed)
			}

			out, err := parse(strings.NewReader(printed), observed)
			if err != nil {
				t.Fatal(err)
			}

			got := want{yaml: out.yaml, summary: summary(renderCase{name: "small", description: "A small cluster."}, out)}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestFatal(t *testing.T) {
	failure := errors.New("exit status 1")

	cases := map[string]struct {
		reason string
		stderr string
		want   string
		err    string
	}{
		"FatalResult": {
			reason: "A fatal result is something a case may expect.",
			stderr: "crossplane: error: cannot render composite resource: pipeline step \"rig\" returned a fatal result: cannot read spec.pools[0]\n",
			want:   "---\napiVersion: render.crossplane.io/v1beta1\nkind: Result\nmessage: cannot read spec.pools[0]\nseverity: Fatal\n",
		},
		"OtherError": {
			reason: "Any other failure is an error.",
			stderr: "crossplane: error: no such file\n",
			err:    "cannot render: exit status 1\ncrossplane: error: no such file\n",
		},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := fatal(tc.stderr, failure)

			if diff := cmp.Diff(tc.want, out.yaml); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}

			if diff := cmp.Diff(tc.err, message(err)); diff != "" {
				t.Errorf("%s: -want error, +got error:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLoadCase(t *testing.T) {
	const (
		xrd         = "spec:\n  group: rig-gateway.io\n  names: {kind: XClusterBlueprint}\n"
		composition = "spec:\n  compositeTypeRef: {kind: XClusterBlueprint}\n  pipeline:\n  - functionRef: {name: function-rig}\n"
		xr          = "apiVersion: rig-gateway.io/v1alpha1\nkind: XClusterBlueprint\n"
	)

	cases := map[string]struct {
		reason string
		files  map[string]string
		want   renderCase
		err    string
	}{
		"Minimal": {
			reason: "The XRD and the Composition are found by the kind of the XR.",
			files: map[string]string{
				"test/render/small/xr.yaml":               "# A small cluster.\n" + xr,
				"apis/infrablueprints/definition.yaml":    "spec:\n  group: rig-gateway.io\n  names: {kind: InfraBlueprint}\n",
				"apis/clusterblueprints/definition.yaml":  xrd,
				"apis/clusterblueprints/composition.yaml": composition,
			},
			want: renderCase{
				name:        "small",
				description: "A small cluster.",
				xr:          "test/render/small/xr.yaml",
				xrd:         "apis/clusterblueprints/definition.yaml",
				composition: "apis/clusterblueprints/composition.yaml",
				function:    "function-rig",
			},
		},
		"Full": {
			reason: "A case may bring everything itself, but not the XRD.",
			files: map[string]string{
				"test/render/small/xr.yaml":              "# A small cluster.\n" + xr,
				"test/render/small/composition.yaml":     strings.Replace(composition, "function-rig", "other-rig", 1),
				"test/render/small/required.yaml":        "",
				"test/render/small/observed.yaml":        "",
				"apis/clusterblueprints/definition.yaml": xrd,
			},
			want: renderCase{
				name:        "small",
				description: "A small cluster.",
				xr:          "test/render/small/xr.yaml",
				xrd:         "apis/clusterblueprints/definition.yaml",
				composition: "test/render/small/composition.yaml",
				required:    "test/render/small/required.yaml",
				observed:    "test/render/small/observed.yaml",
				function:    "other-rig",
			},
		},
		"Unknown": {
			reason: "An unknown case is answered with those that exist.",
			files: map[string]string{
				"test/render/large/xr.yaml":               "# A large cluster.\n" + xr,
				"apis/clusterblueprints/definition.yaml":  xrd,
				"apis/clusterblueprints/composition.yaml": composition,
			},
			err: "no case \"small\" in test/render; there are:\n  large                A large cluster.",
		},
		"NoDescription": {
			reason: "The list of cases needs a description of each.",
			files:  map[string]string{"test/render/small/xr.yaml": xr},
			err:    "the first line of test/render/small/xr.yaml must describe the case in a comment",
		},
		"Claim": {
			reason: "A claim has no XRD of its own and cannot be rendered.",
			files: map[string]string{
				"test/render/small/xr.yaml":              "# A claim.\napiVersion: rig-gateway.io/v1alpha1\nkind: ClusterBlueprint\n",
				"apis/clusterblueprints/definition.yaml": xrd,
			},
			err: "cannot find the XRD of ClusterBlueprint (of a claim, render its composite resource): none of apis/*/definition.yaml matches",
		},
		"OtherFunction": {
			reason: "Only our function is built, so another in the pipeline cannot run.",
			files: map[string]string{
				"test/render/small/xr.yaml":               "# A small cluster.\n" + xr,
				"apis/clusterblueprints/definition.yaml":  xrd,
				"apis/clusterblueprints/composition.yaml": composition + "  - functionRef: {name: function-auto-ready}\n",
			},
			err: "apis/clusterblueprints/composition.yaml calls the functions [\"function-rig\" \"function-auto-ready\"], and only ours can be rendered",
		},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())

			for path, text := range tc.files {
				writeFile(t, path, text)
			}

			got, err := loadCase(".", "small")
			if diff := cmp.Diff(tc.err, message(err)); diff != "" {
				t.Fatalf("%s: -want error, +got error:\n%s", tc.reason, diff)
			}

			if err != nil {
				return
			}

			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(renderCase{})); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}

	return err.Error()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()

	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
