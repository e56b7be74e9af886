package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

// Resources that tests look at.
const (
	claims     = "clusterblueprints.rig-gateway.io"
	composites = "xclusterblueprints.rig-gateway.io"
	infras     = "infrablueprints.rig-gateway.io"
	blueprints = "harvesterblueprints.rig-gateway.io"
	releases   = "releases.helm.crossplane.io"
	objects    = "objects.kubernetes.crossplane.io"
	mailboxes  = "environmentconfigs.apiextensions.crossplane.io"
	clusters   = "clusters.provisioning.cattle.io"
	machines   = "machines.cluster.x-k8s.io"
	secrets    = "secrets"

	// rancherNamespace holds the Rancher clusters.
	rancherNamespace = "fleet-default"
)

// Limits of waiting. What an event triggers takes seconds; the rest is for a machine that is busy.
const (
	soon = 2 * time.Minute
	long = 6 * time.Minute
	// removal of a claim: provider-kubernetes backs off while the barrier holds what the machines need, up to a minute at a
	// time.
	removal = 8 * time.Minute
)

// noUsage takes away the label by which Crossplane's webhook knows what is in use.
const noUsage = `{"metadata":{"labels":{"crossplane.io/in-use":null}}}`

var errStillThere = errors.New("it is still there")

// A user of an API, for one test.
type user struct {
	t      *testing.T
	name   string
	client *kube.Client
}

// as a user of the control plane: an app team, stack.Platform or stack.Admin.
func as(t *testing.T, name string) user {
	t.Helper()
	return connect(t, name, func() (*kube.Client, error) { return plane.Client(name) })
}

// infrastructure is the API that stands in for Rancher and Harvester, as its administrator.
func infrastructure(t *testing.T) user {
	t.Helper()
	return connect(t, "the infrastructure's administrator", func() (*kube.Client, error) { return plane.InfraClient() })
}

func connect(t *testing.T, name string, client func() (*kube.Client, error)) user {
	t.Helper()
	if plane == nil {
		t.Skip("needs a control plane, which -short does not start")
	}
	c, err := client()
	if err != nil {
		t.Fatal(err)
	}
	return user{t, name, c}
}

// apply YAML documents.
func (u user) apply(documents string) {
	u.t.Helper()
	if err := u.client.Apply(u.t.Context(), documents); err != nil {
		u.t.Fatalf("%s: %v", u.name, err)
	}
}

func (u user) get(resource, namespace, name string) *unstructured.Unstructured {
	u.t.Helper()
	o, err := u.client.Get(u.t.Context(), resource, namespace, name)
	if err != nil {
		u.t.Fatalf("%s: cannot get %s %s/%s: %v", u.name, resource, namespace, name, err)
	}
	return o
}

// list objects with the labels of a selector.
func (u user) list(resource, namespace, selector string) []unstructured.Unstructured {
	u.t.Helper()
	found, err := u.client.List(u.t.Context(), resource, namespace, selector)
	if err != nil {
		u.t.Fatalf("%s: %v", u.name, err)
	}
	return found
}

func (u user) remove(resource, namespace, name string) {
	u.t.Helper()
	if err := u.client.Delete(u.t.Context(), resource, namespace, name); err != nil {
		u.t.Fatalf("%s: cannot delete %s %s/%s: %v", u.name, resource, namespace, name, err)
	}
}

// An expectation of an object.
type expectation struct {
	what string
	met  func(*unstructured.Unstructured) bool
}

// condition of a type has a status, and a reason unless that is empty.
func condition(conditionType, status, reason string) expectation {
	return expectation{
		fmt.Sprintf("condition %s is %s %s", conditionType, status, reason),
		func(o *unstructured.Unstructured) bool {
			c := kube.ConditionOf(o, conditionType)
			return c.Status == status && (reason == "" || c.Reason == reason)
		},
	}
}

// said by a condition of a type.
func said(conditionType, message string) expectation {
	return expectation{
		fmt.Sprintf("condition %s says %q", conditionType, message),
		func(o *unstructured.Unstructured) bool { return kube.ConditionOf(o, conditionType).Message == message },
	}
}

// field at a dotted path has a value, compared as printed.
func field(path, value string) expectation {
	return expectation{
		fmt.Sprintf("%s is %s", path, value),
		func(o *unstructured.Unstructured) bool { return fieldOf(o, path) == value },
	}
}

// another object of the same name.
func another(than types.UID) expectation {
	return expectation{"another object", func(o *unstructured.Unstructured) bool { return o.GetUID() != than && o.GetDeletionTimestamp() == nil }}
}

// decoded value of a Secret.
func decoded(t *testing.T, value string) string {
	t.Helper()
	plain, err := base64.StdEncoding.DecodeString(value)
	if err != nil || len(plain) == 0 {
		t.Fatalf("there is no value: %v", err)
	}
	return string(plain)
}

// components of the control plane.
func components(t *testing.T) []string {
	t.Helper()
	status, err := plane.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range status {
		out = append(out, s.Component)
	}
	return out
}

// logOf a component.
func logOf(t *testing.T, component string) string {
	t.Helper()
	text, err := os.ReadFile(plane.LogFile(component))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fieldOf an object at a dotted path, as printed. Empty if there is none.
func fieldOf(o *unstructured.Unstructured, path string) string {
	v, found, err := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
	if err != nil || !found {
		return ""
	}
	return fmt.Sprint(v)
}

// eventually an object is as expected. If it is not within the limit, the test fails and shows it as it was last.
func (u user) eventually(limit time.Duration, resource, namespace, name string, want ...expectation) *unstructured.Unstructured {
	u.t.Helper()
	var last *unstructured.Unstructured
	err := kube.Wait(u.t.Context(), limit, func(ctx context.Context) error {
		o, err := u.client.Get(ctx, resource, namespace, name)
		if err != nil {
			return err
		}
		last = o
		for _, w := range want {
			if !w.met(o) {
				return fmt.Errorf("%s: not yet: %s", kube.Name(o), w.what)
			}
		}
		return nil
	})
	if err != nil {
		u.t.Fatalf("%s: %s %s/%s: %v; last seen:\n%s", u.name, resource, namespace, name, err, show(last))
	}
	return last
}

// gone is an object within the limit. Also after the test, whose context has ended then.
func (u user) gone(limit time.Duration, resource, namespace, name string) {
	u.t.Helper()
	var last *unstructured.Unstructured
	err := kube.Wait(context.WithoutCancel(u.t.Context()), limit, func(ctx context.Context) error {
		o, err := u.client.Get(ctx, resource, namespace, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		last = o
		return errors.Join(errStillThere, err)
	})
	if err != nil {
		u.t.Fatalf("%s: %s %s/%s: %v; last seen:\n%s", u.name, resource, namespace, name, err, show(last))
	}
}

// none of a resource has the labels of a selector, for a while.
func (u user) none(during time.Duration, resource, namespace, selector string) {
	u.t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if found := u.list(resource, namespace, selector); len(found) > 0 {
			u.t.Fatalf("%s: there is %s %s:\n%s", u.name, resource, found[0].GetName(), show(&found[0]))
		}
	}
}

// show an object in a failed test: what is known of it, without what never explains anything.
func show(o *unstructured.Unstructured) string {
	if o == nil {
		return "  nothing"
	}
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	raw, err := yaml.Marshal(o.Object)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// An infrastructure with its own quota, for one test.
type infra struct {
	name string
	// cpu of the quota. Memory and disk are ample.
	cpu int
	// annotations of its Rancher clusters, such as the delays of the provisioner.
	annotations map[string]string
	// access and queueing, as fields of the spec.
	access string
}

// offer an infrastructure as platform team. After all tests it is taken away, once every claim of it is gone.
func offer(t *testing.T, i infra) {
	t.Helper()
	as(t, stack.Platform).apply(i.yaml(t))
	withdrawLater(i.name)
}

// withdrawLater takes an InfraBlueprint and its HarvesterBlueprint away after all tests.
func withdrawLater(infra string) {
	offered.mu.Lock()
	defer offered.mu.Unlock()
	offered.infras = append(offered.infras, infra)
}

// offered infrastructures. Their claims are removed when their tests end; that this ends well is only seen after all
// tests, so that nobody waits for it.
var offered struct { //nolint:gochecknoglobals // TestMain looks at it.
	mu     sync.Mutex
	infras []string
}

// withdraw every infrastructure that was offered. It fails if a claim is still there, or anything that was composed for one.
func withdraw(ctx context.Context) error {
	client, err := plane.Client(stack.Admin)
	if err != nil {
		return err
	}
	errs := make([]error, len(offered.infras))
	var all sync.WaitGroup
	for i, name := range offered.infras {
		all.Go(func() {
			errs[i] = kube.Wait(ctx, removal, func(ctx context.Context) error {
				if err := unclaimed(ctx, client, name); err != nil {
					return err
				}
				for _, resource := range []string{infras, blueprints} {
					// Its quota is in quarantine still, and protects it.
					if err := ignoreNotFound(client.Patch(ctx, resource, "", name, noUsage)); err != nil {
						return err
					}
					if err := ignoreNotFound(client.Delete(ctx, resource, "", name)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	all.Wait()
	return errors.Join(errors.Join(errs...), kube.Wait(ctx, removal, func(ctx context.Context) error { return empty(ctx, client) }))
}

// empty says whether nothing of any cluster or infrastructure is left, on either side.
func empty(ctx context.Context, client *kube.Client) error {
	infraClient, err := plane.InfraClient()
	if err != nil {
		return err
	}
	for _, left := range []struct {
		client    *kube.Client
		resources []string
	}{
		{client, []string{
			claims, composites, infras, blueprints, releases, objects, mailboxes, "clusterusages.protection.crossplane.io",
		}},
		{infraClient, []string{
			clusters, machines, "harvesterconfigs.rke-machine-config.cattle.io",
		}},
	} {
		for _, resource := range left.resources {
			found, err := left.client.List(ctx, resource, "", "")
			if err != nil {
				return err
			}
			if len(found) > 0 {
				return fmt.Errorf("%d %s: %w, such as\n%s", len(found), resource, errStillThere, show(&found[0]))
			}
		}
	}
	return nil
}

// unclaimed says whether no claim of an infrastructure is left.
func unclaimed(ctx context.Context, client *kube.Client, infra string) error {
	found, err := client.List(ctx, claims, "", "")
	if err != nil {
		return err
	}
	for _, o := range found {
		if fieldOf(&o, "spec.infraBlueprintRef.name") == infra {
			return fmt.Errorf("claim %s/%s: %w\n%s", o.GetNamespace(), o.GetName(), errStillThere, show(&o))
		}
	}
	return nil
}

func (i infra) yaml(t *testing.T) string {
	t.Helper()
	annotations, err := yaml.Marshal(i.annotations)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
apiVersion: rig-gateway.io/v1alpha1
kind: HarvesterBlueprint
metadata: {name: %[1]s}
spec:
  endpoint: https://10.0.0.10:6443
  vmNamespace: rig-prod
  image: default/image-ubuntu-2404
  networks: [default/vlan-10]
  sshUser: ubuntu
---
apiVersion: rig-gateway.io/v1alpha1
kind: InfraBlueprint
metadata: {name: %[1]s}
spec:
  providerRef: {kind: HarvesterBlueprint, name: %[1]s}
  quota: {cpu: "%[2]d", memory: 4Ti, disk: 40Ti}
  credentials:
    rancherProviderConfigRef: {name: rancher}
    infrastructureProviderConfigRef: {name: harvester-fra}
    cloudCredentialSecretName: cattle-global-data:cc-hcifra
  clusterDefaults:
    cluster:
      annotations:
        %[3]s
%[4]s
`, i.name, i.cpu, strings.ReplaceAll(strings.TrimSpace(string(annotations)), "\n", "\n        "), i.access)
}

// A claim of a team: one pool of nodes with 4 cpus that do everything.
type claim struct {
	team, name, infra string
	nodes             int
	// version of Kubernetes. A usual one when left out.
	version string
	// priority that it asks for.
	priority int
}

func (c claim) yaml() string {
	version := c.version
	if version == "" {
		version = "v1.31.7+rke2r1"
	}
	return fmt.Sprintf(`
apiVersion: rig-gateway.io/v1alpha1
kind: ClusterBlueprint
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  infraBlueprintRef: {name: %[3]s}
  kubernetesVersion: %[4]s
  priority: %[6]d
  pools:
  - {name: control, count: 1, roles: [control-plane, etcd, worker], cpu: "4", memory: 8Gi, disk: 60Gi}
  - {name: workers, count: %[5]d, roles: [worker], cpu: "4", memory: 8Gi, disk: 60Gi}
  writeConnectionSecretToRef: {name: %[1]s-kubeconfig}
`, c.name, c.team, c.infra, version, c.nodes-1, c.priority)
}

// submit a claim as its team, and remove it after the test.
func submit(t *testing.T, c claim) user {
	t.Helper()
	return submitAs(t, c, c.yaml())
}

// submitAs submits a claim as other YAML than its own.
func submitAs(t *testing.T, c claim, documents string) user {
	t.Helper()
	team := as(t, c.team)
	team.apply(documents)
	cleanup(t, func(admin user) {
		err := admin.client.Delete(context.Background(), claims, c.team, c.name)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("cannot remove claim %s/%s: %v", c.team, c.name, err)
		}
	})
	return team
}

// composite of a claim: the name of everything behind it.
func composite(t *testing.T, c claim) string {
	t.Helper()
	bound := expectation{"a composite", func(o *unstructured.Unstructured) bool { return fieldOf(o, "spec.resourceRef.name") != "" }}
	return fieldOf(as(t, c.team).eventually(soon, claims, c.team, c.name, bound), "spec.resourceRef.name")
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// cleanup after a test, unless it failed and the control plane is kept to be looked at.
func cleanup(t *testing.T, clean func(admin user)) {
	t.Helper()
	admin := as(t, stack.Admin)
	t.Cleanup(func() {
		if t.Failed() && keep() {
			return
		}
		clean(admin)
	})
}
