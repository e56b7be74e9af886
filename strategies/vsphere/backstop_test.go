package vsphere

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
)

// limitable is a blueprint whose pool can be limited, with changes of the pool.
func limitable(changes ...func(*v1alpha1.VsphereResourcePool)) change {
	return func(s *v1alpha1.VsphereBlueprintSpec) {
		s.ResourcePool.ParentID, s.ResourcePool.GrandparentID, s.ResourcePool.MHzPerCPU = "resgroup-8", "resgroup-2", 2600
		for _, change := range changes {
			change(&s.ResourcePool)
		}
	}
}

func TestHeadroom(t *testing.T) {
	d := strategies.Demand{
		Largest: ledger.Resources{8000, 32 * gib, 100 * gib, 1}, Migrations: 2, Surge: 3, Volumes: 50, Disk: true,
	}
	want := ledger.NoLimits()
	want[ledger.CPU], want[ledger.Memory] = 24_000, 96*gib
	got := open(t).(strategies.Backstop).Headroom(d)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Headroom(...): the surge, in cpu and memory only: -want, +got:\n%s", diff)
	}
}

const poolName = "backstop-resourcepool-"

// limitedPool that is wanted, as provider-vsphere sees it or not.
func limitedPool(composed, id string, cpu, memory any) strategies.Resource {
	return strategies.Resource{
		"apiVersion": "hostandclustermanagement.crossplane.io/v1alpha1",
		"kind":       "VSphereResourcePool",
		"metadata": map[string]any{
			"name": "rig-prod-" + composed, "labels": map[string]any{"rig-gateway.io/infra-blueprint": "prod"},
			"annotations": map[string]any{"crossplane.io/external-name": id},
		},
		"spec": map[string]any{
			"deletionPolicy":    "Orphan",
			"providerConfigRef": map[string]any{"name": "vsphere-fra1"},
			"forProvider": map[string]any{
				"name": "rig", "parentResourcePoolId": "resgroup-2", "cpuLimit": cpu, "memoryLimit": memory,
			},
		},
	}
}

func seen(r strategies.Resource, cpu, memory float64) strategies.Resource {
	r["status"] = map[string]any{"atProvider": map[string]any{"cpuLimit": cpu, "memoryLimit": memory}}
	return r
}

func TestBackstop(t *testing.T) {
	scope := strategies.BackstopScope{
		Name: "prod", Labels: map[string]string{"rig-gateway.io/infra-blueprint": "prod"},
		Infra: v1alpha1.InfraBlueprintSpec{
			Credentials: v1alpha1.Credentials{InfrastructureProviderConfigRef: &v1alpha1.ProviderConfigReference{Name: "vsphere-fra1"}},
			Backstop:    &v1alpha1.Backstop{},
		},
	}
	composed, other := scope.ComposedName("ResourcePool", "resgroup-8"), scope.ComposedName("ResourcePool", "resgroup-9")
	if composed == other || composed[:len(poolName)] != poolName {
		t.Fatalf("composed names %q and %q", composed, other)
	}
	// 152 cpus of 2600 MHz; 608 GiB and a byte, in MB.
	limit := ledger.NoLimits()
	limit[ledger.CPU], limit[ledger.Memory] = 152_000, 608*gib+1
	const cpu, memory = int64(395_200), int64(622_593)
	failed := limitedPool(composed, "resgroup-8", 1.0, 1.0)
	failed["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Synced", "status": "False", "message": "cannot update"}}}
	cases := map[string]struct {
		reason   string
		limit    *ledger.Resources
		observed map[string]strategies.Resource
		want     strategies.BackstopOutput
	}{
		"New": {
			reason: "The pool at path is found by its id, gets limits in MHz and MB, and is never deleted.", limit: &limit,
			want: strategies.BackstopOutput{
				Resources: map[string]strategies.Resource{composed: limitedPool(composed, "resgroup-8", cpu, memory)},
				Pending:   "limiting resource pool /fra1/host/c1/Resources/rig",
			},
		},
		"Limited": {
			reason: "It is limited once vSphere says so.", limit: &limit,
			observed: map[string]strategies.Resource{composed: seen(limitedPool(composed, "resgroup-8", 1.0, 1.0), 395_200, 622_593)},
			want:     strategies.BackstopOutput{Resources: map[string]strategies.Resource{composed: limitedPool(composed, "resgroup-8", cpu, memory)}},
		},
		"Failed": {
			reason: "What the provider says is passed on.", limit: &limit, observed: map[string]strategies.Resource{composed: failed},
			want: strategies.BackstopOutput{
				Resources: map[string]strategies.Resource{composed: limitedPool(composed, "resgroup-8", cpu, memory)},
				Missing:   "resource pool /fra1/host/c1/Resources/rig: cannot update",
			},
		},
		"AnotherPool": {
			reason: "A pool that is not the blueprint's any more loses its limits first.", limit: &limit,
			observed: map[string]strategies.Resource{
				composed: seen(limitedPool(composed, "resgroup-8", 1.0, 1.0), 395_200, 622_593), other: seen(limitedPool(other, "resgroup-9", 1.0, 1.0), 1, 1),
			},
			want: strategies.BackstopOutput{Resources: map[string]strategies.Resource{
				composed: limitedPool(composed, "resgroup-8", cpu, memory), other: limitedPool(other, "resgroup-9", int64(-1), int64(-1)),
			}},
		},
		"Off": {
			reason:   "So does one whose backstop is turned off.",
			observed: map[string]strategies.Resource{composed: seen(limitedPool(composed, "resgroup-8", 1.0, 1.0), 1, -1)},
			want:     strategies.BackstopOutput{Resources: map[string]strategies.Resource{composed: limitedPool(composed, "resgroup-8", int64(-1), int64(-1))}},
		},
		"Gone": {
			reason:   "A pool without limits is let go.",
			observed: map[string]strategies.Resource{composed: seen(limitedPool(composed, "resgroup-8", -1.0, -1.0), -1, -1)},
			want:     strategies.BackstopOutput{Resources: map[string]strategies.Resource{}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := scope
			s.Limit, s.Observed = tc.limit, tc.observed
			got, err := open(t, limitable()).(strategies.Backstop).Backstop(s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nBackstop(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBackstopRefusals(t *testing.T) {
	cases := map[string]struct {
		reason string
		change change
		infra  func(*v1alpha1.InfraBlueprintSpec)
		want   string
	}{
		"NoProviderConfig": {
			reason: "Somebody must reach vSphere.", change: limitable(),
			infra: func(s *v1alpha1.InfraBlueprintSpec) { s.Credentials.InfrastructureProviderConfigRef = nil },
			want:  "spec.credentials.infrastructureProviderConfigRef: Required value: name the ProviderConfig of provider-vsphere that limits the resource pool",
		},
		"NoIDs": {
			reason: "provider-vsphere knows ids only.", change: func(*v1alpha1.VsphereBlueprintSpec) {},
			want: "VsphereBlueprint.spec.resourcePool.grandparentID: Required value: a backstop needs it, parentID and mhzPerCPU",
		},
		"Root": {
			reason: "vSphere does not limit the root of a cluster, in which the machines would be.",
			change: limitable(func(p *v1alpha1.VsphereResourcePool) { p.Path = "/fra1/host/c1/Resources" }),
			want: `VsphereBlueprint.spec.resourcePool.path: Invalid value: "/fra1/host/c1/Resources": is the root of a host or cluster, which cannot be limited: ` +
				`use a resource pool below it`,
		},
		"Disk": {
			reason: "A limit that nobody enforces is a lie.", change: limitable(),
			infra: func(s *v1alpha1.InfraBlueprintSpec) { s.Backstop.Limit = &v1alpha1.BackstopResources{Disk: "1Ti"} },
			want:  "spec.backstop.limit.disk: Forbidden: a resource pool of vSphere limits no disk",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			infra := v1alpha1.InfraBlueprintSpec{
				Credentials: v1alpha1.Credentials{InfrastructureProviderConfigRef: &v1alpha1.ProviderConfigReference{Name: "vsphere-fra1"}},
				Backstop:    &v1alpha1.Backstop{},
			}
			if tc.infra != nil {
				tc.infra(&infra)
			}
			limit := ledger.NoLimits()
			_, err := open(t, tc.change).(strategies.Backstop).Backstop(strategies.BackstopScope{Name: "prod", Infra: infra, Limit: &limit})
			if err == nil || err.Error() != tc.want {
				t.Errorf("%s\nBackstop(...):\ngot  %v\nwant %s", tc.reason, err, tc.want)
			}
		})
	}
}
