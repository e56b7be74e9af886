package stack

import (
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
)

func numbered(t *testing.T) *Stack {
	t.Helper()
	s := &Stack{Dir: t.TempDir(), root: t.TempDir(), ports: ports{}}
	for i, name := range portNames() {
		s.ports[name] = firstPort + i
	}
	return s
}

func TestComponents(t *testing.T) {
	s := numbered(t)
	seen, used := map[string]bool{}, map[int]bool{}
	address := regexp.MustCompile(`\b(\d+\.\d+\.\d+\.\d+):(\d+)\b`)
	for _, c := range s.components() {
		if seen[c.name] {
			t.Errorf("there are two components %s", c.name)
		}
		seen[c.name] = true
		if own := []string{"function-rig", "controlplane"}; !slices.Contains(own, c.binary) && !slices.Contains(tools(), c.binary) {
			t.Errorf("%s: nobody builds %s", c.name, c.binary)
		}
		all := strings.Join(c.args, " ")
		for _, found := range address.FindAllStringSubmatch(all, -1) {
			if found[1] != "127.0.0.1" {
				t.Errorf("%s listens on or talks to %s", c.name, found[0])
			}
		}
		for name, port := range s.ports {
			if strings.Contains(all, strconv.Itoa(port)) {
				used[s.ports[name]] = true
			}
		}
	}
	for name, port := range s.ports {
		if !used[port] {
			t.Errorf("nobody uses port %s", name)
		}
	}
}

// TestDefaultFlags pins what users of Crossplane and its providers should be able to rely on here.
func TestDefaultFlags(t *testing.T) {
	s := numbered(t)
	flag := regexp.MustCompile(`^--[a-z-]+`)
	got := map[string][]string{}
	for _, c := range s.components() {
		if !slices.Contains([]string{Crossplane, ProviderHelm, ProviderKubernetes}, c.name) {
			continue
		}
		got[c.name] = nil
		for _, arg := range c.args {
			if name := flag.FindString(arg); name != "" {
				got[c.name] = append(got[c.name], name)
			}
		}
	}
	want := map[string][]string{
		Crossplane: {
			"--package-runtime", "--webhook-port", "--tls-client-certs-dir", "--tls-server-certs-dir", "--metrics-port",
			"--health-probe-port", "--xpkg-cache-dir",
		},
		ProviderHelm: nil,
		ProviderKubernetes: {
			"--sanitize-secrets", "--enable-watches", "--metrics-bind-address", "--health-probe-bind-addr", "--webhook-port",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags: -want, +got:\n%s", diff)
	}
}

func TestCertify(t *testing.T) {
	s := numbered(t)
	if err := s.certify(); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm() != private {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	roots := map[side]*x509.CertPool{}
	for _, of := range []side{control, infra, functions} {
		raw, err := os.ReadFile(filepath.Join(s.pki(of), "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		roots[of] = x509.NewCertPool()
		roots[of].AppendCertsFromPEM(raw)
	}
	raw, err := os.ReadFile(filepath.Join(s.pki(control), "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	server, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for of, pool := range roots {
		_, err := server.Verify(x509.VerifyOptions{Roots: pool, DNSName: "127.0.0.1"})
		if trusted := err == nil; trusted != (of == control) {
			t.Errorf("the control plane's certificate is trusted in %s: %t (%v)", of, trusted, err)
		}
	}

	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig("team-a"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ = pem.Decode(config.CertData)
	user, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{config.Host, user.Subject.CommonName, strings.Join(user.Subject.Organization, ",")}
	if diff := cmp.Diff([]string{s.server(control), "team-a", "team-a"}, got); diff != "" {
		t.Errorf("kubeconfig of an app team: -want, +got:\n%s", diff)
	}
}

func parse(t *testing.T, documents string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kube.Parse([]byte(documents))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestProviderRoles(t *testing.T) {
	crds := parse(t, `
spec: {group: b.example.org, names: {plural: things}}
---
spec: {group: a.example.org, names: {plural: others}}
`)
	want := parse(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: crossplane:provider:p:aggregate-to-edit
  labels:
    rbac.crossplane.io/aggregate-to-crossplane: "true"
    rbac.crossplane.io/aggregate-to-admin: "true"
    rbac.crossplane.io/aggregate-to-edit: "true"
rules:
- {apiGroups: [a.example.org], resources: [others, others/status], verbs: ["*"]}
- {apiGroups: [b.example.org], resources: [things, things/status], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: crossplane:provider:p:aggregate-to-view
  labels:
    rbac.crossplane.io/aggregate-to-view: "true"
rules:
- {apiGroups: [a.example.org], resources: [others, others/status], verbs: [get, list, watch]}
- {apiGroups: [b.example.org], resources: [things, things/status], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: crossplane:provider:p:system
rules:
- {apiGroups: [a.example.org], resources: [others, others/status], verbs: [get, list, watch, update, patch, create]}
- {apiGroups: [b.example.org], resources: [things, things/status], verbs: [get, list, watch, update, patch, create]}
- {apiGroups: [a.example.org, b.example.org], resources: ["*/finalizers"], verbs: [update]}
- {apiGroups: ["", coordination.k8s.io], resources: [secrets, configmaps, events, leases], verbs: ["*"]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "crossplane:provider:p:system"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "crossplane:provider:p:system"}
subjects: [{kind: ServiceAccount, namespace: crossplane-system, name: p}]
`)
	got, err := providerRoles("p", crds)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("providerRoles(...): -want, +got:\n%s", diff)
	}
}

func TestForTeam(t *testing.T) {
	objects := parse(t, `
kind: ClusterRole
metadata: {name: rig-app-team}
---
kind: RoleBinding
metadata: {name: rig-app-team, namespace: team-payments}
roleRef: {name: rig-app-team}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: team-payments}]
---
kind: Role
metadata: {name: rig-kubeconfigs, namespace: team-payments}
`)
	want := parse(t, `
kind: ClusterRole
metadata: {name: rig-app-team}
---
kind: RoleBinding
metadata: {name: rig-app-team, namespace: team-a}
roleRef: {name: rig-app-team}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: team-a}]
---
kind: Role
metadata: {name: rig-kubeconfigs, namespace: team-a}
`)
	for _, o := range objects {
		if err := forTeam(o, "team-a"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, objects); diff != "" {
		t.Errorf("forTeam(...): -want, +got:\n%s", diff)
	}
}

func TestWithInput(t *testing.T) {
	composition := parse(t, `{kind: Composition, spec: {pipeline: [{step: rig, functionRef: {name: f}}]}}`)[0]
	if err := withInput(composition, map[string]any{"kind": "Input"}); err != nil {
		t.Fatal(err)
	}
	want := parse(t, `{kind: Composition, spec: {pipeline: [{step: rig, functionRef: {name: f}, input: {kind: Input}}]}}`)[0]
	if diff := cmp.Diff(want, composition); diff != "" {
		t.Errorf("withInput(...): -want, +got:\n%s", diff)
	}
	if err := withInput(parse(t, `{kind: Composition, spec: {}}`)[0], nil); err == nil {
		t.Error("a Composition without a pipeline must be an error")
	}
}
