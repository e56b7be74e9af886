package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

const platformYAML = `
apiVersion: rig-gateway.io/v1alpha1
kind: HarvesterBlueprint
metadata: {name: platform}
spec:
  endpoint: https://10.0.0.10:6443
  vmNamespace: rig-prod
  image: default/image-ubuntu-2404
  networks: [default/vlan-10]
  storageClassName: longhorn-r3
  sshUser: ubuntu
  providerConfigRef: {name: rig-platform-infrastructure}
---
apiVersion: rig-gateway.io/v1alpha1
kind: InfraBlueprint
metadata: {name: platform}
spec:
  providerRef: {kind: HarvesterBlueprint, name: platform}
  quota: {cpu: "16", memory: 64Gi, disk: 1Ti}
  credentials:
    rancherKubeconfigSecretRef: {namespace: crossplane-system, name: rancher-kubeconfig, key: kubeconfig}
    infrastructureKubeconfigSecretRef: {namespace: crossplane-system, name: harvester-fra-kubeconfig, key: kubeconfig}
    cloudCredentialSecretName: cattle-global-data:cc-hcifra
`

// TestPlatform sets an infrastructure up with credentials only: the ProviderConfigs are made of them, what the blueprint
// names is looked up before anything is built, and a backstop limits the namespace of the machines.
func TestPlatform(t *testing.T) {
	t.Parallel()
	platform, admin, harvester := as(t, stack.Platform), as(t, stack.Admin), infrastructure(t)
	for _, role := range []string{"preflight-role.yaml", "backstop-role.yaml"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "examples", "harvester", role))
		if err != nil {
			t.Fatal(err)
		}
		harvester.apply(strings.ReplaceAll(string(raw), "- kind: ServiceAccount\n  namespace: rig-system\n  name: rig",
			"- kind: User\n  apiGroup: rbac.authorization.k8s.io\n  name: rig-harvester"))
	}
	harvester.remove("storageclasses.storage.k8s.io", "", "longhorn-r3")
	before := harvester.get("namespaces", "", "rig-prod")

	platform.apply(platformYAML)
	withdrawLater("platform")
	c := claim{team: "team-a", name: "platform", infra: "platform", nodes: 2}
	team := submit(t, c)
	team.eventually(long, claims, c.team, c.name, condition("Admitted", "True", "Admitted"), condition("Provisioned", "False", "ProviderNotReady"),
		said("Provisioned", `HarvesterBlueprint "platform": spec.storageClassName: StorageClass "longhorn-r3" is not there`))
	usage(t, "platform", "8/16")
	name := composite(t, c)
	harvester.none(2*time.Second, clusters, rancherNamespace, "rig-gateway.io/cluster="+name)

	harvester.apply("{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: longhorn-r3}, provisioner: driver.longhorn.io}")
	team.eventually(long, claims, c.team, c.name, condition("Provisioned", "True", "Provisioned"), condition("Ready", "True", ""))
	admin.eventually(soon, releases, "", name, field("spec.providerConfigRef.name", "rig-platform-rancher"))

	if err := platform.client.Patch(t.Context(), infras, "", "platform", `{"spec":{"backstop":{}}}`); err != nil {
		t.Fatal(err)
	}
	// A node takes 4 cpus; the largest is held once for a migration and three times for a surge. The console log of each of
	// 16 machines, which the quota has room for, and of those 4 takes 15m.
	limited := platform.eventually(long, infras, "", "platform", condition("Backstop", "True", "BackstopEnforced"))
	if got, want := fieldOf(limited, "status.backstop.limit.cpu"), "32300m"; got != want {
		t.Errorf("the backstop limits cpu to %s, want %s", got, want)
	}
	annotated := harvester.eventually(soon, "namespaces", "", "rig-prod", annotation("field.cattle.io/resourceQuota", `"limitsCpu":"32300m"`))
	if annotated.GetUID() != before.GetUID() {
		t.Error("the namespace was made again")
	}
	harvester.eventually(soon, "resourcequotas", "rig-prod", "rig-platform", expectation{"limits.cpu", func(o *unstructured.Unstructured) bool {
		hard, _, _ := unstructured.NestedString(o.Object, "spec", "hard", "limits.cpu")
		return hard == "32300m" && o.GetLabels()["resourcequota.management.cattle.io/default-resource-quota"] == "true"
	}})

	if err := platform.client.Patch(t.Context(), infras, "", "platform", `{"spec":{"backstop":null}}`); err != nil {
		t.Fatal(err)
	}
	harvester.eventually(long, "namespaces", "", "rig-prod", annotation("field.cattle.io/resourceQuota", `{"limit":{}}`))
	harvester.gone(long, "resourcequotas", "rig-prod", "rig-platform")
	err := kube.Wait(t.Context(), long, func(ctx context.Context) error {
		found, err := admin.client.List(ctx, objects, "", "rig-gateway.io/infra-blueprint=platform,!rig-gateway.io/cluster")
		if err == nil && len(found) > 0 {
			err = errStillThere
		}
		return err
	})
	if err != nil {
		t.Errorf("the backstop is off, but there are Objects of it: %v", err)
	}
	after := harvester.get("namespaces", "", "rig-prod")
	if after.GetUID() != before.GetUID() || after.GetDeletionTimestamp() != nil || after.GetAnnotations()["rig-gateway.io/backstop"] != "" {
		t.Errorf("the namespace is not left as it was:\n%s", show(after))
	}
}

// annotation of an object has a text in it.
func annotation(name, text string) expectation {
	return expectation{"annotation " + name + " has " + text, func(o *unstructured.Unstructured) bool {
		return strings.Contains(o.GetAnnotations()[name], text)
	}}
}
