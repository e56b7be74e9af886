package harvester

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
)

// The machines are those of the table of overheads: 8 vCPUs and 32 GiB take 33318 MiB, 4 and 8 take 8646 MiB.
func TestHeadroom(t *testing.T) {
	const m60, m80 = 60_000_000, 80_000_000
	quota := ledger.Resources{64_000, 256 * gib, 4096 * gib, ledger.Unlimited, ledger.Unlimited}
	large, small := ledger.Resources{8000, 33318 * mib, 100 * gib, 1}, ledger.Resources{4000, 8646 * mib, 60 * gib, 1}
	headroom := func(cpu, memory, disk int64) ledger.Resources {
		return ledger.Resources{cpu, memory, disk, ledger.Unlimited, ledger.Unlimited}
	}
	cases := map[string]struct {
		reason string
		demand strategies.Demand
		want   ledger.Resources
	}{
		"Empty": {
			reason: "Without clusters there is nothing to move: the logs of 64 machines of one vCPU, three of a surge and one that migrates.",
			demand: strategies.Demand{Quota: quota, Migrations: 1, Surge: 3},
			want:   headroom(68*15, 68*m60, ledger.Unlimited),
		},
		"Default": {
			reason: "Four of the largest machine, its overhead included, and 68 logs.",
			demand: strategies.Demand{Quota: quota, Largest: large, Migrations: 1, Surge: 3},
			want:   headroom(4*8000+68*15, 4*33318*mib+68*m60, ledger.Unlimited),
		},
		"FewNodes": {
			reason: "A quota of nodes says how many logs there are.",
			demand: strategies.Demand{
				Quota: ledger.Resources{64_000, 256 * gib, 4096 * gib, 10, ledger.Unlimited}, Largest: small, Migrations: 2,
			},
			want: headroom(2*4000+12*15, 2*8646*mib+12*m60, ledger.Unlimited),
		},
		"LittleMemory": {
			reason: "So does a quota of memory: no machine has less than 1 GiB.",
			demand: strategies.Demand{Quota: ledger.Resources{64_000, 8 * gib, gib, ledger.Unlimited}, Largest: small},
			want:   headroom(8*15, 8*m60, ledger.Unlimited),
		},
		"OverQuota": {
			reason: "More machines than the quota has room for have logs too.",
			demand: strategies.Demand{Quota: ledger.Resources{2000, 256 * gib, gib, ledger.Unlimited}, Reserved: ledger.Resources{ledger.Nodes: 9}},
			want:   headroom(9*15, 9*m60, ledger.Unlimited),
		},
		"Volumes": {
			reason: "Each volume has a pod that attaches it. A machine that migrates has its disk once.",
			demand: strategies.Demand{
				Quota: quota, Largest: large, Migrations: 1, Surge: 3, Volumes: 50, Disk: true, VolumesDisk: 2048 * gib,
			},
			want: headroom(4*8000+68*15+50*100, 4*33318*mib+68*m60+50*m80, 3*100*gib+2048*gib),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := open(t, spec()).(strategies.Backstop).Headroom(tc.demand)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nHeadroom(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

const (
	quotaOfRancher = "field.cattle.io/resourceQuota"
	ourRecord      = "rig-gateway.io/backstop"
	// Annotations that the limit of the tests makes.
	wantQuota  = `{"limit":{"limitsCpu":"97020m","limitsMemory":"356Gi"}}`
	wantRecord = `{"infraBlueprint":"prod","limit":{"limitsCpu":"97020m","limitsMemory":"356Gi"}}`
)

func backstopScope() strategies.BackstopScope {
	return strategies.BackstopScope{
		Name: "prod", Labels: map[string]string{"rig-gateway.io/infra-blueprint": "prod"},
		Infra: v1alpha1.InfraBlueprintSpec{
			Credentials: v1alpha1.Credentials{InfrastructureProviderConfigRef: &v1alpha1.ProviderConfigReference{Name: "harvester-fra1"}},
		},
	}
}

// backstopObject that is composed.
func backstopObject(composed string, policies []any, manifest map[string]any) strategies.Resource {
	return strategies.Resource{
		"apiVersion": "kubernetes.crossplane.io/v1alpha2",
		"kind":       "Object",
		"metadata": map[string]any{
			"name": "rig-prod-" + composed, "labels": map[string]any{"rig-gateway.io/infra-blueprint": "prod"},
			"annotations": map[string]any{"crossplane.io/external-name": "rig-prod-" + composed},
		},
		"spec": map[string]any{
			"managementPolicies": policies,
			"providerConfigRef":  map[string]any{"name": "harvester-fra1"},
			"forProvider":        map[string]any{"manifest": manifest},
		},
	}
}

// bare Object that observes a namespace, and touches nothing.
func bare(name string) strategies.Resource {
	return backstopObject(backstopScope().ComposedName("Namespace", name), []any{"Observe"},
		map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
}

// changed Object, which sets the annotations of a namespace.
func changed(name string, annotations map[string]any) strategies.Resource {
	return backstopObject(backstopScope().ComposedName("Namespace", name), []any{"Observe", "Update"}, map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "uid": "uid-" + name, "annotations": annotations},
	})
}

// quotaObject for the limit of the tests.
func quotaObject(policies ...any) strategies.Resource {
	return backstopObject(backstopScope().ComposedName("ResourceQuota", "rig-prod"), policies, map[string]any{
		"apiVersion": "v1", "kind": "ResourceQuota",
		"metadata": map[string]any{
			"name": "rig-prod", "namespace": "rig-prod", "labels": map[string]any{"resourcequota.management.cattle.io/default-resource-quota": "true"},
		},
		"spec": map[string]any{"hard": map[string]any{"limits.cpu": "97020m", "limits.memory": "356Gi"}},
	})
}

// seenNamespace is an Object with the live namespace.
func seenNamespace(name string, annotations map[string]any) strategies.Resource {
	o := bare(name)
	o["status"] = map[string]any{"atProvider": map[string]any{"manifest": map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "uid": "uid-" + name, "annotations": annotations},
	}}}
	return o
}

// seenQuota is an Object with the live ResourceQuota.
func seenQuota(cpu string, annotations map[string]any) strategies.Resource {
	o := quotaObject()
	o["status"] = map[string]any{"atProvider": map[string]any{"manifest": map[string]any{
		"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": "rig-prod", "annotations": annotations},
		"spec": map[string]any{"hard": map[string]any{"limits.cpu": cpu, "limits.memory": "364544Mi"}},
	}}}
	return o
}

func withDisk(quota strategies.Resource) strategies.Resource {
	hard := quota["status"].(map[string]any)["atProvider"].(map[string]any)["manifest"].(map[string]any)["spec"].(map[string]any)["hard"].(map[string]any)
	hard["requests.storage"] = "8Ti"
	return quota
}

func failed(o strategies.Resource, message string) strategies.Resource {
	o = maps.Clone(o)
	status, _ := o["status"].(map[string]any)
	status = maps.Clone(status)
	if status == nil {
		status = map[string]any{}
	}
	status["conditions"] = []any{map[string]any{"type": "Synced", "status": "False", "message": message}}
	o["status"] = status
	return o
}

// rancherSays is the annotation of a namespace that a Rancher manages.
func rancherSays(conditions string) string {
	return `{"Conditions":[{"Type":"ResourceQuotaInit","Status":"True","Message":"","LastUpdateTime":"2026-01-01T00:00:00Z"}` + conditions + `]}`
}

func TestBackstop(t *testing.T) {
	limit := ledger.NoLimits()
	limit[ledger.CPU], limit[ledger.Memory] = 97_020, 356*gib
	disk := limit
	disk[ledger.Disk] = 8192 * gib
	ours := map[string]any{quotaOfRancher: wantQuota, ourRecord: wantRecord}
	with := func(changes map[string]any) map[string]any {
		out := maps.Clone(ours)
		maps.Copy(out, changes)
		return out
	}
	scope := backstopScope()
	place, quota := scope.ComposedName("Namespace", "rig-prod"), scope.ComposedName("ResourceQuota", "rig-prod")
	old := scope.ComposedName("Namespace", "rig-old")
	type resources = map[string]strategies.Resource
	cases := map[string]struct {
		reason   string
		limit    *ledger.Resources
		observed resources
		want     strategies.BackstopOutput
	}{
		"LookUpFirst": {
			reason: "Before the namespace was seen it is only looked at, and nothing is made.", limit: &limit,
			want: strategies.BackstopOutput{Resources: resources{place: bare("rig-prod")}, Pending: `looking up namespace "rig-prod"`},
		},
		"NotThere": {
			reason: "A namespace that is not there is not made.", limit: &limit,
			observed: resources{place: failed(bare("rig-prod"), "observe failed: external resource does not exist")},
			want: strategies.BackstopOutput{
				Resources: resources{place: bare("rig-prod")}, Missing: `namespace "rig-prod": observe failed: external resource does not exist`,
			},
		},
		"Annotate": {
			reason: "What others limit in the annotation stays; the uid keeps a namespace that is gone from being made again.", limit: &limit,
			observed: resources{place: seenNamespace("rig-prod", map[string]any{quotaOfRancher: `{"limit":{"limitsCpu":"1","pods":"100"}}`, "a": "b"})},
			want: strategies.BackstopOutput{
				Resources: resources{
					place: changed("rig-prod", map[string]any{
						quotaOfRancher: `{"limit":{"limitsCpu":"97020m","limitsMemory":"356Gi","pods":"100"}}`, ourRecord: wantRecord,
					}),
					quota: quotaObject("Observe", "Create", "Delete"),
				},
				Pending: `annotating namespace "rig-prod"`,
			},
		},
		"QuotaMissing": {
			reason: "An annotation alone enforces nothing.", limit: &limit,
			observed: resources{place: seenNamespace("rig-prod", ours)},
			want: strategies.BackstopOutput{
				Resources: resources{place: bare("rig-prod"), quota: quotaObject("Observe", "Create", "Delete")},
				Pending:   `writing the ResourceQuota of namespace "rig-prod"`,
			},
		},
		"Enforced": {
			reason: "An amount may be written otherwise; then nothing is touched any more.", limit: &limit,
			observed: resources{
				place: seenNamespace("rig-prod", with(map[string]any{quotaOfRancher: `{"limit":{"limitsCpu":"97.02","limitsMemory":"364544Mi","pods":"1"}}`})),
				quota: seenQuota("97.02", nil),
			},
			want: strategies.BackstopOutput{Resources: resources{place: bare("rig-prod"), quota: quotaObject("Observe", "Create", "Delete")}},
		},
		"Migration": {
			reason: "Harvester raises the quota while a machine migrates. That is not put back.", limit: &limit,
			observed: resources{
				place: seenNamespace("rig-prod", ours), quota: seenQuota("105020m", map[string]any{"harvesterhci.io/migratingUID-7f": `{"limits.cpu":"8"}`}),
			},
			want: strategies.BackstopOutput{Resources: resources{place: bare("rig-prod"), quota: quotaObject("Observe", "Create", "Delete")}},
		},
		"MigrationOfOldHarvester": {
			reason: "Before 1.5 it marked the quota by the machine's name.", limit: &limit,
			observed: resources{
				place: seenNamespace("rig-prod", ours), quota: seenQuota("105020m", map[string]any{"harvesterhci.io/migrating-vm1": `{"limits.cpu":"8"}`}),
			},
			want: strategies.BackstopOutput{Resources: resources{place: bare("rig-prod"), quota: quotaObject("Observe", "Create", "Delete")}},
		},
		"Drift": {
			reason: "Without a migration it is put back.", limit: &limit,
			observed: resources{place: seenNamespace("rig-prod", ours), quota: seenQuota("105020m", map[string]any{"a": "b"})},
			want: strategies.BackstopOutput{
				Resources: resources{place: bare("rig-prod"), quota: quotaObject("Observe", "Create", "Delete", "Update")},
				Pending:   `writing the ResourceQuota of namespace "rig-prod"`,
			},
		},
		"QuotaWithAnotherLimit": {
			reason: "A limit of disk that the backstop has no more is taken out of the ResourceQuota.", limit: &limit,
			observed: resources{place: seenNamespace("rig-prod", ours), quota: withDisk(seenQuota("97020m", nil))},
			want: strategies.BackstopOutput{
				Resources: resources{place: bare("rig-prod"), quota: quotaObject("Observe", "Create", "Delete", "Update")},
				Pending:   `writing the ResourceQuota of namespace "rig-prod"`,
			},
		},
		"QuotaFailed": {
			reason: "What the provider says is passed on.", limit: &limit,
			observed: resources{place: seenNamespace("rig-prod", ours), quota: failed(seenQuota("97020m", nil), "forbidden")},
			want: strategies.BackstopOutput{
				Resources: resources{place: bare("rig-prod"), quota: quotaObject("Observe", "Create", "Delete")},
				Missing:   `ResourceQuota of namespace "rig-prod": forbidden`,
			},
		},
		"Rancher": {
			reason: "Where a Rancher manages the namespace, it makes the ResourceQuota of the annotation: two of them would be in each other's way.",
			limit:  &limit,
			observed: resources{
				place: seenNamespace("rig-prod", with(map[string]any{"cattle.io/status": rancherSays(`,{"Type":"ResourceQuotaValidated","Status":"True"}`)})),
				quota: seenQuota("97020m", nil),
			},
			want: strategies.BackstopOutput{Resources: resources{place: bare("rig-prod")}},
		},
		"RancherWithoutProject": {
			reason: "It makes none for a namespace whose project has no quota, and takes away what it finds.", limit: &limit,
			observed: resources{place: seenNamespace("rig-prod", with(map[string]any{"cattle.io/status": rancherSays("")}))},
			want: strategies.BackstopOutput{
				Resources: resources{place: bare("rig-prod")},
				Missing: `Rancher makes no ResourceQuota of the annotation of namespace "rig-prod": put the namespace into a project of Rancher whose quota has room ` +
					`for it, and which limits cpu, memory and storage of its namespaces`,
			},
		},
		"Shared": {
			reason: "A namespace that another InfraBlueprint limits is left to it.", limit: &limit,
			observed: resources{
				place: seenNamespace("rig-prod", with(map[string]any{ourRecord: `{"infraBlueprint":"test","limit":{"limitsCpu":"1"}}`})), quota: seenQuota("1", nil),
			},
			want: strategies.BackstopOutput{
				Resources: resources{place: bare("rig-prod")},
				Missing:   `namespace "rig-prod": InfraBlueprint "test" limits it already; of those that share a namespace one can`,
			},
		},
		"MoreLimits": {
			reason: "A limit of disk goes into the annotation as soon as the backstop has one.", limit: &disk,
			observed: resources{place: seenNamespace("rig-prod", with(map[string]any{"cattle.io/status": rancherSays("")}))},
			want: strategies.BackstopOutput{
				Resources: resources{place: changed("rig-prod", map[string]any{
					quotaOfRancher: `{"limit":{"limitsCpu":"97020m","limitsMemory":"356Gi","requestsStorage":"8Ti"}}`,
					ourRecord:      `{"infraBlueprint":"prod","limit":{"limitsCpu":"97020m","limitsMemory":"356Gi","requestsStorage":"8Ti"}}`,
				})},
				Pending: `annotating namespace "rig-prod"`,
			},
		},
		"FewerLimits": {
			reason: "What the backstop limited once, and no more, is taken out of the annotation.", limit: &limit,
			observed: resources{place: seenNamespace("rig-prod", map[string]any{
				"cattle.io/status": rancherSays(""), quotaOfRancher: `{"limit":{"limitsCpu":"97020m","limitsMemory":"356Gi","requestsStorage":"8Ti"}}`,
				ourRecord: `{"infraBlueprint":"prod","limit":{"limitsCpu":"97020m","limitsMemory":"356Gi","requestsStorage":"8Ti"}}`,
			})},
			want: strategies.BackstopOutput{
				Resources: resources{place: changed("rig-prod", map[string]any{quotaOfRancher: wantQuota, ourRecord: wantRecord})},
				Pending:   `annotating namespace "rig-prod"`,
			},
		},
		"AnotherNamespace": {
			reason: "A namespace that is not the blueprint's any more loses its quota.", limit: &limit,
			observed: resources{place: seenNamespace("rig-prod", ours), quota: seenQuota("97020m", nil), old: seenNamespace("rig-old", ours)},
			want: strategies.BackstopOutput{Resources: resources{
				place: bare("rig-prod"), quota: quotaObject("Observe", "Create", "Delete"), old: changed("rig-old", map[string]any{quotaOfRancher: `{"limit":{}}`}),
			}},
		},
		"Off": {
			reason:   "So does one whose backstop is turned off; what others limit in the annotation stays.",
			observed: resources{place: seenNamespace("rig-prod", with(map[string]any{quotaOfRancher: `{"limit":{"limitsCpu":"97020m","limitsMemory":"356Gi","pods":"9"}}`})), quota: seenQuota("97020m", nil)},
			want:     strategies.BackstopOutput{Resources: resources{place: changed("rig-prod", map[string]any{quotaOfRancher: `{"limit":{"pods":"9"}}`})}},
		},
		"GivenUp": {
			reason:   "Once the record is gone, so is the Object.",
			observed: resources{place: seenNamespace("rig-prod", map[string]any{quotaOfRancher: `{"limit":{}}`})},
			want:     strategies.BackstopOutput{Resources: resources{}},
		},
		"OffWhereNothingWasSet": {
			reason:   "A namespace that was only looked at, or is another's, is not touched.",
			observed: resources{place: seenNamespace("rig-prod", map[string]any{ourRecord: `{"infraBlueprint":"test"}`}), old: bare("rig-old")},
			want:     strategies.BackstopOutput{Resources: resources{}},
		},
		"OffWithoutNamespace": {
			reason:   "A namespace that is gone has nothing to be taken back.",
			observed: resources{place: failed(seenNamespace("rig-prod", ours), "uid mismatch: the provided object specified uid uid-rig-prod, and no existing object was found")},
			want:     strategies.BackstopOutput{Resources: resources{}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := scope
			s.Limit, s.Observed = tc.limit, tc.observed
			got, err := open(t, spec()).(strategies.Backstop).Backstop(s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nBackstop(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBackstopNeedsHarvester(t *testing.T) {
	limit := ledger.NoLimits()
	_, err := open(t, spec()).(strategies.Backstop).Backstop(strategies.BackstopScope{Name: "prod", Limit: &limit})
	want := "spec.credentials.infrastructureProviderConfigRef: Required value: name the ProviderConfig of provider-kubernetes that reaches Harvester"
	if err == nil || err.Error() != want {
		t.Errorf("Backstop(...):\ngot  %v\nwant %s", err, want)
	}
}
