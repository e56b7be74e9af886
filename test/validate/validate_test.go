// Package validate holds what users apply, and what the function composes, against the schemas of everybody involved, with
// the command that users have for it: crossplane resource validate.
package validate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/rig-gateway/function-rig/hack/gomodule"
)

const root = "../.."

// unchecked groups: those that Kubernetes itself serves, for which the CLI has no schemas, what only the CLI prints, and the
// providers that not every installation has. The strategies' tests compare what is composed of them field by field.
func unchecked() []string {
	return []string{
		"", "policy", "rbac.authorization.k8s.io", "render.crossplane.io",
		"aws.upbound.io", "ec2.aws.upbound.io", "iam.aws.upbound.io",
		"vsphere.crossplane.io", "hostandclustermanagement.crossplane.io", "inventory.crossplane.io",
	}
}

// validator is the CLI with the schemas that it needs.
type validator struct {
	cli, extensions, cache, image string
}

// newValidator collects our XRDs and the input's CRD, the CRDs of both providers, and puts those of Crossplane itself into
// the cache where the CLI would put what it downloads.
func newValidator(t *testing.T) *validator {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the Crossplane CLI")
	}
	cli := filepath.Join(root, ".cache", "bin", "crossplane-cli")
	if _, err := os.Stat(cli); err != nil {
		t.Fatalf("%s is missing: run make tools", cli)
	}
	core := module(t, "crossplane-core", "github.com/crossplane/crossplane/v2")
	const repository = "registry.example.org/crossplane/crossplane"
	v := &validator{cli: cli, cache: t.TempDir(), image: repository + ":" + core.Version}
	cached := filepath.Join(v.cache, repository+"@"+core.Version)
	if err := os.MkdirAll(cached, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cached, "package.yaml"), join(t, filepath.Join(core.Dir, "cluster", "crds", "*.yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	extensions := t.TempDir()
	for name, pattern := range map[string]string{
		"ours":                filepath.Join(root, "apis", "*", "definition.yaml"),
		"input":               filepath.Join(root, "package", "input", "*.yaml"),
		"provider-helm":       filepath.Join(module(t, "provider-helm", "github.com/crossplane-contrib/provider-helm").Dir, "package", "crds", "*.yaml"),
		"provider-kubernetes": filepath.Join(module(t, "provider-kubernetes", "github.com/crossplane-contrib/provider-kubernetes").Dir, "package", "crds", "*.yaml"),
	} {
		if err := os.WriteFile(filepath.Join(extensions, name+".yaml"), join(t, pattern), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v.extensions = extensions
	return v
}

// module that a tool is built from.
func module(t *testing.T, tool, path string) gomodule.Module {
	t.Helper()
	m, err := gomodule.Download(t.Context(), filepath.Join(root, "hack", "tools", tool), path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// join files into one YAML stream.
func join(t *testing.T, pattern string) []byte {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	var out []byte
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, "---\n"...), raw...)
		out = append(out, '\n')
	}
	return out
}

// validate objects, and return what the CLI says.
func (v *validator) validate(ctx context.Context, t *testing.T, objects []*unstructured.Unstructured) (string, error) {
	t.Helper()
	var text []byte
	for _, o := range objects {
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, "---\n"...), raw...)
	}
	resources := filepath.Join(t.TempDir(), "resources.yaml")
	if err := os.WriteFile(resources, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, v.cli, "resource", "validate", v.extensions, resources, "--cache-dir="+v.cache,
		"--crossplane-image="+v.image, "--error-on-missing-schemas", "--skip-success-results").CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err
}

// read the objects of YAML files, without those of unchecked groups.
func read(t *testing.T, pattern string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	base, _ := filepath.Split(strings.SplitN(pattern, "*", 2)[0])
	err := filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if matched, err := filepath.Match(filepath.Base(pattern), entry.Name()); err != nil || !matched {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for text := range strings.SplitSeq("\n"+string(raw), "\n---") {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			group := schema.FromAPIVersionAndKind(o.GetAPIVersion(), "").Group
			if len(o.Object) > 0 && !slices.Contains(unchecked(), group) {
				out = append(out, o)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// only the object of a kind, as a copy.
func only(t *testing.T, objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind {
			return o.DeepCopy()
		}
	}
	t.Fatalf("no %s", kind)
	return nil
}

// TestValid: everything that we ship and everything that the function composes in the render cases.
func TestValid(t *testing.T) {
	v := newValidator(t)
	cases := map[string]struct {
		reason string
		files  string
		kinds  []string
	}{
		"Examples": {
			reason: "What a user applies.", files: root + "/examples/*.yaml",
			kinds: []string{"ClusterBlueprint", "Configuration", "DeploymentRuntimeConfig", "Function", "HarvesterBlueprint", "InfraBlueprint", "ProviderConfig"},
		},
		"Compositions": {reason: "What the Configuration installs.", files: root + "/apis/*/composition.yaml", kinds: []string{"Composition"}},
		"Activation":   {reason: "What the Configuration installs beside it.", files: root + "/apis/*/activation.yaml", kinds: []string{"ManagedResourceActivationPolicy"}},
		"Rendered": {
			reason: "What Crossplane would apply.", files: root + "/test/render/*/want.yaml",
			kinds: []string{"EnvironmentConfig", "InfraBlueprint", "Object", "Release", "XClusterBlueprint"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// One render case has a name that no API server takes, and the function says so.
			objects := slices.DeleteFunc(read(t, tc.files), func(o *unstructured.Unstructured) bool {
				return len(o.GetName()) > validation.DNS1123LabelMaxLength
			})
			seen := map[string]bool{}
			for _, o := range objects {
				seen[o.GetKind()] = true
			}
			for _, kind := range tc.kinds {
				if !seen[kind] {
					t.Errorf("%s: no %s among them, so nothing was checked", tc.reason, kind)
				}
			}
			if out, err := v.validate(t.Context(), t, objects); err != nil {
				t.Errorf("%s: %v\n%s", tc.reason, err, out)
			}
		})
	}
}

// TestActivated: the Configuration activates every managed kind that the render cases compose. Those of the vSphere provider
// know no safe start.
func TestActivated(t *testing.T) {
	policies, err := os.ReadFile(root + "/apis/activation.yaml")
	if err != nil {
		t.Fatal(err)
	}
	composed := join(t, root+"/test/render/*/want.yaml")
	seen := 0
	for text := range strings.SplitSeq("\n"+string(composed), "\n---") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if _, managed, _ := unstructured.NestedMap(o.Object, "spec", "forProvider"); !managed || strings.HasPrefix(o.GetKind(), "VSphere") {
			continue
		}
		seen++
		plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		if want := "\n  - " + plural.Resource + "." + plural.Group + "\n"; !strings.Contains(string(policies), want) {
			t.Errorf("apis/activation.yaml does not activate %s.%s", plural.Resource, plural.Group)
		}
	}
	if seen == 0 {
		t.Error("nothing that a provider manages is composed, so nothing was checked")
	}
}

// TestWrong: each mistake is found, and it is named.
func TestWrong(t *testing.T) {
	v := newValidator(t)
	examples, compositions, rendered := read(t, root+"/examples/*.yaml"), read(t, root+"/apis/*/composition.yaml"), read(t, root+"/test/render/*/want.yaml")
	cases := map[string]struct {
		reason string
		in     []*unstructured.Unstructured
		kind   string
		value  any
		path   []string
		want   string
	}{
		"ClaimUnknownField": {
			reason: "A misspelt field of a claim.", in: examples, kind: "ClusterBlueprint",
			value: "v1.31.7+rke2r1", path: []string{"spec", "kubernetesVersoin"}, want: "kubernetesVersoin",
		},
		"ClaimNoPools": {
			reason: "A claim of nothing.", in: examples, kind: "ClusterBlueprint",
			value: []any{}, path: []string{"spec", "pools"}, want: "spec.pools",
		},
		"ClaimQuantity": {
			reason: "A size that is no quantity.", in: examples, kind: "ClusterBlueprint",
			value: []any{map[string]any{"name": "all", "count": int64(1), "cpu": "4", "memory": "much", "disk": "100Gi"}}, path: []string{"spec", "pools"},
			want: "spec.pools[0].memory",
		},
		"QuotaType": {
			reason: "A quota that is no map.", in: examples, kind: "InfraBlueprint",
			value: "64", path: []string{"spec", "quota"}, want: "spec.quota",
		},
		"ProviderConfigUnknownField": {
			reason: "A misspelt field of a provider's kind.", in: examples, kind: "ProviderConfig",
			value: "Secret", path: []string{"spec", "credentials", "sauce"}, want: "sauce",
		},
		"RuntimeUnknownField": {
			reason: "A misspelt field of the function's Deployment.", in: examples, kind: "DeploymentRuntimeConfig",
			value: int64(2), path: []string{"spec", "deploymentTemplate", "spec", "replica"}, want: "replica",
		},
		"CompositionUnknownField": {
			reason: "A misspelt field of a Composition.", in: compositions, kind: "Composition",
			value: "Pipeline", path: []string{"spec", "mod"}, want: "mod",
		},
		"ReleaseUnknownField": {
			reason: "A misspelt field of what is composed.", in: rendered, kind: "Release",
			value: "fleet-default", path: []string{"spec", "forProvider", "nameSpace"}, want: "nameSpace",
		},
		"UnknownKind": {
			reason: "A kind that nobody installs.", in: examples, kind: "ClusterBlueprint",
			value: "ClusterBluePrint", path: []string{"kind"}, want: "ClusterBluePrint",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := only(t, tc.in, tc.kind)
			if err := unstructured.SetNestedField(o.Object, tc.value, tc.path...); err != nil {
				t.Fatal(err)
			}
			out, err := v.validate(t.Context(), t, []*unstructured.Unstructured{o})
			if err == nil || !strings.Contains(out, tc.want) {
				t.Errorf("%s: %v, want a failure that names %s\n%s", tc.reason, err, tc.want, out)
			}
		})
	}
}
