package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/alecthomas/kong"
	pkgmetav1 "github.com/crossplane/crossplane/apis/v2/pkg/meta/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/rig-gateway/function-rig/hack/gomodule"
)

const (
	root       = "../.."
	crossplane = root + "/.cache/bin/crossplane-cli"

	// annotation of the layers that Crossplane reads.
	annotation = "io.crossplane.xpkg"
)

func newTestBuild(t *testing.T, o options) *build {
	t.Helper()
	if o.root == "" {
		o.root = root
	}
	if o.out == "" {
		o.out = t.TempDir()
	}
	if o.registry == "" {
		o.registry = exampleRegistry
	}
	o.crossplane, o.providerRegistry, o.architectures, o.revision = crossplane, "registry.example.org/mirror/providers", []string{"amd64", "arm64"}, "0123abc"
	b, err := newBuild(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func needsBuild(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the function for two platforms, and needs the Crossplane CLI")
	}
}

// puller reads a registry on this machine as any client does.
type puller struct {
	*testing.T

	url string
}

func (p puller) get(repository, kind, reference string) []byte {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), http.MethodGet, fmt.Sprintf("%s/v2/%s/%s/%s", p.url, repository, kind, reference), nil)
	if err != nil {
		p.Fatal(err)
	}
	rsp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer rsp.Body.Close() //nolint:errcheck // Only read.
	raw, err := io.ReadAll(rsp.Body)
	if err != nil || rsp.StatusCode != http.StatusOK {
		p.Fatalf("GET %s: %s, %v\n%s", req.URL, rsp.Status, err, raw)
	}
	return raw
}

// image of a manifest with its configuration.
func (p puller) image(repository, reference string) (*v1.Manifest, *v1.ConfigFile) {
	p.Helper()
	manifest, err := v1.ParseManifest(bytes.NewReader(p.get(repository, "manifests", reference)))
	if err != nil {
		p.Fatal(err)
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(p.get(repository, "blobs", manifest.Config.Digest.String())))
	if err != nil {
		p.Fatal(err)
	}
	return manifest, config
}

// layer of the manifest with the annotation, as its files.
func (p puller) layer(repository string, manifest *v1.Manifest, value string) map[string]file {
	p.Helper()
	for _, l := range manifest.Layers {
		if l.Annotations[annotation] == value {
			return p.files(bytes.NewReader(p.get(repository, "blobs", l.Digest.String())))
		}
	}
	p.Fatalf("%s has no layer that is annotated %s: %s", repository, annotation, value)
	return nil
}

// files of a layer, which may be compressed or not.
func (p puller) files(layer io.Reader) map[string]file {
	p.Helper()
	raw, err := io.ReadAll(layer)
	if err != nil {
		p.Fatal(err)
	}
	var plain io.Reader = bytes.NewReader(raw)
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		if plain, err = gzip.NewReader(plain); err != nil {
			p.Fatal(err)
		}
	}
	out, reader := map[string]file{}, tar.NewReader(plain)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			p.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			p.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			out[header.Name] = file{content, fs.FileMode(header.Mode)}
		}
	}
}

// documents of a YAML stream.
func documents(t *testing.T, raw []byte) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for text := range strings.SplitSeq("\n"+string(raw), "\n---") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// kinds counts the objects of a package.
func kinds(objects []*unstructured.Unstructured) map[string]int {
	out := map[string]int{}
	for _, o := range objects {
		out[o.GetKind()]++
	}
	return out
}

// TestPush builds everything, pushes it to a registry on this machine, and looks at what Crossplane would pull.
func TestPush(t *testing.T) {
	needsBuild(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	b := newTestBuild(t, options{registry: address + "/platform/rig"})
	if _, err := b.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	published, err := b.push(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := puller{t, server.URL}

	t.Run("Function", func(t *testing.T) {
		p := puller{t, server.URL}
		const repository = "platform/rig/function-rig"
		index, err := v1.ParseIndexManifest(bytes.NewReader(p.get(repository, "manifests", b.version())))
		if err != nil {
			t.Fatal(err)
		}
		var platforms []string
		for _, m := range index.Manifests {
			platforms = append(platforms, m.Platform.String())
			manifest, config := p.image(repository, m.Digest.String())
			checkImage(t, b, manifest, config, m.Platform.Architecture)
			objects := documents(t, p.layer(repository, manifest, "base")["package.yaml"].content)
			if diff := cmp.Diff(map[string]int{"Function": 1, "CustomResourceDefinition": 1}, kinds(objects)); diff != "" {
				t.Errorf("objects of the package: -want, +got:\n%s", diff)
			}
			if examples := documents(t, p.layer(repository, manifest, "upbound")[".up/examples.yaml"].content); kinds(examples)["ClusterBlueprint"] == 0 {
				t.Errorf("the examples are not embedded: %v", kinds(examples))
			}
		}
		if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
			t.Errorf("platforms: -want, +got:\n%s", diff)
		}
	})

	t.Run("Configuration", func(t *testing.T) {
		p := puller{t, server.URL}
		const repository = "platform/rig/configuration-rig"
		manifest, _ := p.image(repository, b.version())
		objects := documents(t, p.layer(repository, manifest, "base")["package.yaml"].content)
		definitions, err := filepath.Glob(root + "/apis/*/definition.yaml")
		if err != nil {
			t.Fatal(err)
		}
		n := len(definitions)
		want := map[string]int{"Configuration": 1, "CompositeResourceDefinition": n, "Composition": n, "ManagedResourceActivationPolicy": 1}
		if diff := cmp.Diff(want, kinds(objects)); diff != "" {
			t.Errorf("objects of the package: -want, +got:\n%s", diff)
		}
		for _, o := range objects {
			switch o.GetKind() {
			case "Configuration":
				checkDependencies(t, o, address, b.version())
			case "Composition":
				checkSteps(t, o, address)
			}
		}
	})

	t.Run("Chart", func(t *testing.T) {
		p := puller{t, server.URL}
		const repository = "platform/rig/charts/rke2-cluster"
		manifest, _ := p.image(repository, b.chart.Metadata.Version)
		c, err := loader.LoadArchive(bytes.NewReader(p.get(repository, "blobs", manifest.Layers[0].Digest.String())))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b.chart.Metadata, c.Metadata); diff != "" {
			t.Errorf("metadata of the chart: -want, +got:\n%s", diff)
		}
	})

	t.Run("Printed", func(t *testing.T) {
		for i, repository := range []string{"charts/rke2-cluster", "function-rig", "configuration-rig"} {
			name, digest, _ := strings.Cut(published[i], "@")
			if want := b.registry + "/" + repository; name != want {
				t.Errorf("published %s, want %s", name, want)
			}
			p.get("platform/rig/"+repository, "manifests", digest)
		}
	})
}

// checkImage says what is wrong with a runtime image for Crossplane, or for a cautious cluster.
func checkImage(t *testing.T, b *build, manifest *v1.Manifest, config *v1.ConfigFile, arch string) {
	t.Helper()
	// The Crossplane CLI adds labels, by which it annotates the layers.
	want := b.config(arch)
	for key := range config.Config.Labels {
		if strings.HasPrefix(key, annotation) {
			delete(config.Config.Labels, key)
		}
	}
	got := &v1.ConfigFile{Architecture: config.Architecture, OS: config.OS, RootFS: v1.RootFS{Type: config.RootFS.Type}, Config: config.Config}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration for %s: -want, +got:\n%s", arch, diff)
	}
	// Crossplane's package manager and every registry know OCI's types.
	for _, l := range manifest.Layers {
		if l.MediaType != types.OCILayer && l.MediaType != types.DockerLayer {
			t.Errorf("layer of type %s", l.MediaType)
		}
	}
}

// checkDependencies of the Configuration on what was pushed beside it, and on the pinned providers.
func checkDependencies(t *testing.T, o *unstructured.Unstructured, address, version string) {
	t.Helper()
	raw, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	c := &pkgmetav1.Configuration{}
	if err := json.Unmarshal(raw, c); err != nil {
		t.Fatal(err)
	}
	wants := map[string]string{
		address + "/platform/rig/function-rig":                      version,
		"registry.example.org/mirror/providers/provider-helm":       pinned(t, "provider-helm"),
		"registry.example.org/mirror/providers/provider-kubernetes": pinned(t, "provider-kubernetes"),
	}
	for _, d := range c.Spec.DependsOn {
		want, ok := wants[*d.Package]
		if !ok {
			t.Errorf("depends on %s", *d.Package)
			continue
		}
		delete(wants, *d.Package)
		checkRange(t, *d.Package, d.Version, want, true)
		if *d.Kind == "Function" {
			next := semver.MustParse(version).IncPatch()
			checkRange(t, *d.Package, d.Version, next.Original(), false)
		}
	}
	for missing := range wants {
		t.Errorf("does not depend on %s", missing)
	}
	for constrained, cases := range map[string]map[string]bool{
		c.Spec.Crossplane.Version: {"v1.20.0": false, "v2.2.0": false, "v2.3.0": true, "v2.4.0-rc.0": true, "v2.4.0": true},
	} {
		for version, want := range cases {
			checkRange(t, "Crossplane", constrained, version, want)
		}
	}
}

func checkRange(t *testing.T, what, constraint, version string, want bool) {
	t.Helper()
	c, err := semver.NewConstraint(constraint)
	if err != nil {
		t.Fatalf("%s: %v", constraint, err)
	}
	if got := c.Check(semver.MustParse(version)); got != want {
		t.Errorf("%s: range %q takes %s: %t, want %t", what, constraint, version, got, want)
	}
}

// pinned version of a tool: the one that the end-to-end tests run with.
func pinned(t *testing.T, tool string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "hack", "tools", tool, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "github.com/crossplane-contrib/"+tool {
			return fields[1]
		}
	}
	t.Fatalf("hack/tools/%s does not require it", tool)
	return ""
}

// checkSteps of a Composition: they call the function by the name that its installation will have, and clusters get their
// chart from where it was pushed.
func checkSteps(t *testing.T, composition *unstructured.Unstructured, address string) {
	t.Helper()
	steps, _, err := unstructured.NestedSlice(composition.Object, "spec", "pipeline")
	if err != nil || len(steps) != 1 {
		t.Fatalf("%s: %d steps, %v", composition.GetName(), len(steps), err)
	}
	step, _ := steps[0].(map[string]any)
	if name, _, _ := unstructured.NestedString(step, "functionRef", "name"); name != "platform-rig-function-rig" {
		t.Errorf("%s calls function %q", composition.GetName(), name)
	}
	if composition.GetName() == "xclusterblueprints.rig-gateway.io" {
		if chart, _, _ := unstructured.NestedString(step, "input", "chart", "repository"); chart != "oci://"+address+"/platform/rig/charts" {
			t.Errorf("clusters get their chart from %q", chart)
		}
	}
}

// TestArchitectures: a release is for all of them unless somebody says otherwise. Crossplane itself is published for these.
func TestArchitectures(t *testing.T) {
	var c cli
	parser := kong.Must(&c, kong.Vars{"registry": exampleRegistry, "providers": exampleProviders})
	for _, tc := range []struct{ args, want []string }{
		{[]string{"version"}, []string{"amd64", "arm64"}},
		{[]string{"--arch=arm64", "version"}, []string{"arm64"}},
	} {
		if _, err := parser.Parse(tc.args); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, c.Arch); diff != "" {
			t.Errorf("%v: -want, +got:\n%s", tc.args, diff)
		}
	}
}

// TestReproducible: sources in another place, written at another time, with other permissions, give the same files. The
// compiler's cache may be shared; the linker always runs. All platforms are built alike, so one is enough.
func TestReproducible(t *testing.T) {
	needsBuild(t)
	moved := t.TempDir()
	for _, folder := range []string{"apis", "charts", "examples", "fn", "input", "internal", "package", "strategies", "go.mod", "go.sum"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			return write(filepath.Join(moved, relative), raw, 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	digests := func(sources string) map[string]string {
		b := newTestBuild(t, options{root: sources})
		b.architectures = b.architectures[:1]
		files, err := b.all(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, path := range files {
			if filepath.Ext(path) != ".xpkg" {
				continue
			}
			image, err := tarball.ImageFromPath(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			digest, err := image.Digest()
			if err != nil {
				t.Fatal(err)
			}
			out[filepath.Base(path)] = digest.String()
		}
		return out
	}
	first := digests(root)
	if len(first) != 2 {
		t.Fatalf("packages: %v", first)
	}
	if diff := cmp.Diff(first, digests(moved)); diff != "" {
		t.Errorf("built twice: -first, +second:\n%s", diff)
	}
}

// TestFiles of the image.
func TestFiles(t *testing.T) {
	files := baseFiles()
	pool := x509.NewCertPool()
	n := 0
	for rest := files["etc/ssl/certs/ca-certificates.crt"]; len(rest) > 0; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			t.Fatal("the certificates end in something else")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		pool.AddCert(certificate)
	}
	if n < 100 {
		t.Errorf("only %d certificates", n)
	}
	raw, err := archive(asFiles(files, regular))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for reader := tar.NewReader(bytes.NewReader(raw)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %o %d:%d %d", header.Name, header.Mode, header.Uid, header.Gid, header.ModTime.Unix()))
	}
	want := []string{
		"etc/ 755 0:0 0", "etc/group 644 0:0 0", "etc/passwd 644 0:0 0", "etc/ssl/ 755 0:0 0", "etc/ssl/certs/ 755 0:0 0",
		"etc/ssl/certs/ca-certificates.crt 644 0:0 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("layer: -want, +got:\n%s", diff)
	}
	for _, name := range []string{"etc/passwd", "etc/group"} {
		if !strings.Contains(string(files[name]), ":"+strings.Split(user, ":")[0]+":") {
			t.Errorf("%s does not know %s", name, user)
		}
	}
}

// TestFunctionObject compares with Crossplane's own function, taken out of the module that its core is built from.
func TestFunctionObject(t *testing.T) {
	cases := map[string]struct {
		reason   string
		registry string
		want     string
		err      string
	}{
		"Example": {reason: "What the sources say.", registry: exampleRegistry, want: exampleFunction},
		"Port":    {reason: "The host is no part of it.", registry: "127.0.0.1:5000/rig-gateway", want: exampleFunction},
		"Deep":    {reason: "Folders become dashes.", registry: "registry.example.org/a/b.c/d", want: "a-b-c-d-function-rig"},
		"Bare":    {reason: "A registry may have no folder.", registry: "registry.example.org", want: "function-rig"},
		"Underscore": {
			reason: "Crossplane would drop it, and two repositories could get one name.", registry: "registry.example.org/a_b",
			err: `cannot use registry "registry.example.org/a_b": Crossplane makes the function's name of the path, and "a_b-function-rig" `,
		},
		"Long": {
			reason: "Crossplane would cut it off.", registry: "registry.example.org/" + strings.Repeat("a", 60),
			err: `cannot use registry "registry.example.org/` + strings.Repeat("a", 60) + `": Crossplane makes the function's name of the path, and `,
		},
		"NoHost": {reason: "A path is no address.", registry: "rig-gateway", err: `cannot use registry "rig-gateway": give its host and a path, such as registry.example.org/rig-gateway: `},
	}
	var paths []string
	for _, tc := range cases {
		if tc.want != "" {
			_, path, _ := strings.Cut(tc.registry+"/"+functionName, "/")
			paths = append(paths, path)
		}
	}
	theirs := map[string]string{}
	if !testing.Short() {
		theirs = crossplaneLabels(t, paths)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := functionObject(tc.registry)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Errorf("%s: error %v, want %s…", tc.reason, err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("%s: got %q, %v, want %q", tc.reason, got, err, tc.want)
			}
			_, path, _ := strings.Cut(tc.registry+"/"+functionName, "/")
			if label, ok := theirs[path]; ok && label != got {
				t.Errorf("%s: Crossplane says %q, we say %q", tc.reason, label, got)
			}
		})
	}
}

// crossplaneLabels runs ToDNSLabel of the crossplane-runtime that Crossplane's core is built with. Its package cannot be
// imported without a hundred modules, so the function alone is compiled.
func crossplaneLabels(t *testing.T, paths []string) map[string]string {
	t.Helper()
	module, err := gomodule.Download(t.Context(), filepath.Join(root, "hack", "tools", "crossplane-core"), "github.com/crossplane/crossplane-runtime/v2")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.Join(module.Dir, "pkg", "xpkg", "name.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	source := bytes.NewBufferString("package main\nimport (\"fmt\"; \"os\"; \"strings\")\nfunc main() { for _, s := range os.Args[1:] { fmt.Println(ToDNSLabel(s)) } }\n")
	i := slices.IndexFunc(parsed.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Name.Name == "ToDNSLabel"
	})
	if i < 0 {
		t.Fatalf("%s has no ToDNSLabel any more", module.Dir)
	}
	if err := printer.Fprint(source, set, parsed.Decls[i]); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(program, source.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"run", program}, paths...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	printed := strings.Fields(string(out))
	if len(printed) != len(paths) {
		t.Fatalf("%d labels of %d paths", len(printed), len(paths))
	}
	labels := map[string]string{}
	for i, label := range printed {
		labels[paths[i]] = label
	}
	return labels
}

// TestSources: what the build replaces is there, and nothing else names a registry.
func TestSources(t *testing.T) {
	b := newTestBuild(t, options{registry: "registry.example.org/other"})
	staged := t.TempDir()
	for _, folder := range []string{"apis", "examples", "package"} {
		if err := b.stage(folder, staged); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(root, "apis", "crossplane.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), functionRange); n != 1 {
		t.Errorf("apis/crossplane.yaml has the function's range %d times, not once as %s", n, functionRange)
	}
	err = filepath.WalkDir(staged, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, left := range []string{exampleRegistry, exampleProviders, exampleFunction} {
			if strings.Contains(string(raw), left) {
				t.Errorf("%s still has %s", path, left)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// dockerfile returns the instructions of the repository's, each as its keyword and the rest of it.
func dockerfile(t *testing.T) [][2]string {
	t.Helper()
	raw, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var out [][2]string
	for line := range strings.SplitSeq(strings.ReplaceAll(string(raw), "\\\n", " "), "\n") {
		if line = strings.Join(strings.Fields(line), " "); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		keyword, rest, _ := strings.Cut(line, " ")
		out = append(out, [2]string{keyword, rest})
	}
	return out
}

// TestDockerfile holds the Dockerfile and the image of this program in step: the same files, user, entrypoint, labels and
// ports.
func TestDockerfile(t *testing.T) {
	b := newTestBuild(t, options{out: root + "/.cache/release"})
	config := b.config("amd64").Config
	entry, err := json.Marshal(config.Entrypoint)
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]string{
		{"FROM", "scratch"},
		{"ARG", "TARGETOS TARGETARCH VERSION REVISION"},
		{"COPY", ".cache/release/${TARGETOS}-${TARGETARCH}/rootfs/ /"},
		{"LABEL", ""},
		{"WORKDIR", config.WorkingDir},
		{"USER", config.User},
		{"EXPOSE", "8080/tcp 9443/tcp"},
		{"ENTRYPOINT", string(entry)},
	}
	got := dockerfile(t)
	labels := map[string]string{}
	for i, instruction := range got {
		if instruction[0] != "LABEL" {
			continue
		}
		got[i][1] = ""
		for label := range strings.SplitSeq(strings.Trim(instruction[1], `"`), `" `) {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = strings.NewReplacer(`"`, "", "${VERSION}", b.version(), "${REVISION}", b.revision).Replace(value)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instructions: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(config.Labels, labels); diff != "" {
		t.Errorf("labels: -want, +got:\n%s", diff)
	}
	if copied := filepath.Clean(root + "/" + strings.NewReplacer("${TARGETOS}", "linux", "${TARGETARCH}", "amd64").Replace(".cache/release/${TARGETOS}-${TARGETARCH}/rootfs")); copied != filepath.Clean(b.rootfs("amd64")) {
		t.Errorf("the Dockerfile copies %s, and this program writes %s", copied, b.rootfs("amd64"))
	}
	ports := []string{}
	for port := range config.ExposedPorts {
		ports = append(ports, port)
	}
	slices.Sort(ports)
	if strings.Join(ports, " ") != "8080/tcp 9443/tcp" {
		t.Errorf("ports %v", ports)
	}
}

// TestMissingCLI names what to do.
func TestMissingCLI(t *testing.T) {
	b := newTestBuild(t, options{})
	b.crossplane = filepath.Join(t.TempDir(), "crossplane")
	err := b.crossplaneCLI(context.Background(), "version")
	if want := b.crossplane + " is missing: run make tools"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestNotes of a release, and that there are some about the version in the sources.
func TestNotes(t *testing.T) {
	const changelog = "# Changelog\n\n## 1.2.3 (2026-05-01)\n\nNew.\n\n### More\n\n- this\n\n## 1.2.0\n\nOld.\n"
	cases := map[string]struct {
		reason  string
		version string
		want    string
		err     string
	}{
		"Newest":  {reason: "Up to the next version.", version: "1.2.3", want: "New.\n\n### More\n\n- this"},
		"Oldest":  {reason: "Up to the end.", version: "1.2.0", want: "Old."},
		"Partial": {reason: "The start of a version is another.", version: "1.2", err: "CHANGELOG.md has no section ## 1.2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := notes(changelog, tc.version)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.err}, []string{got, message}); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	raw, err := os.ReadFile(root + "/CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := notes(string(raw), newTestBuild(t, options{}).chart.Metadata.Version); err != nil {
		t.Error(err)
	}
}
