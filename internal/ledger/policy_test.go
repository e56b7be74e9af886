package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

func TestParsePolicy(t *testing.T) {
	three, negative := int64(3), int64(-1)
	quota := v1alpha1.Quota{CPU: "64", Memory: "256Gi", Disk: "4Ti"}
	limits := Resources{CPU: 64000, Memory: 256 * gib, Disk: 4096 * gib, Nodes: Unlimited, Clusters: Unlimited}
	cases := map[string]struct {
		reason string
		in     v1alpha1.InfraBlueprintSpec
		want   Policy
		err    string
	}{
		"Unlimited": {
			reason: "Counts that are left out are unlimited, and everybody may claim.",
			in:     v1alpha1.InfraBlueprintSpec{Quota: quota},
			want:   Policy{Limits: limits},
		},
		"Counts": {
			reason: "Counts are limits where they are given.",
			in:     v1alpha1.InfraBlueprintSpec{Quota: v1alpha1.Quota{CPU: "0", Memory: "0", Disk: "0", Nodes: &three, Clusters: &three}},
			want:   Policy{Limits: Resources{Nodes: 3, Clusters: 3}},
		},
		"Everything": {
			reason: "Reserve, strategy and rules; a namespace's quota limits only what it names.",
			in: v1alpha1.InfraBlueprintSpec{
				Quota: v1alpha1.Quota{
					CPU: "64", Memory: "256Gi", Disk: "4Ti", SurgeReserve: &v1alpha1.ClusterResources{CPU: "4", Nodes: 1},
				},
				QueueingStrategy: v1alpha1.StrictFIFO,
				Access: &v1alpha1.Access{Namespaces: []v1alpha1.NamespaceRule{
					{Name: "team-a", MaxPriority: 100}, {Name: "team-*", Quota: &v1alpha1.NamespaceQuota{Memory: "8Gi", Clusters: &three}},
				}},
			},
			want: Policy{
				Limits: limits, SurgeReserve: Resources{CPU: 4000, Nodes: 1}, StrictFIFO: true,
				Access: []NamespaceRule{
					{Name: "team-a", Limits: NoLimits(), MaxPriority: 100},
					{Name: "team-*", Limits: Resources{CPU: Unlimited, Memory: 8 * gib, Disk: Unlimited, Nodes: Unlimited, Clusters: 3}},
				},
			},
		},
		"EveryFault": {
			reason: "All faults are named at once, each with its path.",
			in: v1alpha1.InfraBlueprintSpec{
				Quota:            v1alpha1.Quota{CPU: "many", Disk: "1Gi", Nodes: &negative, SurgeReserve: &v1alpha1.ClusterResources{Memory: "-1"}},
				QueueingStrategy: "LIFO",
				Access:           &v1alpha1.Access{Namespaces: []v1alpha1.NamespaceRule{{Quota: &v1alpha1.NamespaceQuota{CPU: "1n"}}}},
			},
			err: `[spec.quota.cpu: Invalid value: "many": must be a Kubernetes quantity in whole milli-cpus, such as 4 or 500m, ` +
				`spec.quota.nodes: Invalid value: -1: must not be negative, ` +
				`spec.quota.memory: Required value: a quota limits it, ` +
				`spec.queueingStrategy: Unsupported value: "LIFO": supported values: "BestEffortFIFO", "StrictFIFO", ` +
				`spec.quota.surgeReserve.memory: Invalid value: "-1": must be a Kubernetes quantity in whole bytes, such as 16Gi, ` +
				`spec.access.namespaces[0].name: Required value: must be a namespace, or a pattern such as team-*, ` +
				`spec.access.namespaces[0].quota.cpu: Invalid value: "1n": must be a Kubernetes quantity in whole milli-cpus, such as 4 or 500m]`,
		},
		"Nobody": {
			reason: "Rules without a rule would let everybody in.",
			in:     v1alpha1.InfraBlueprintSpec{Quota: quota, Access: &v1alpha1.Access{}},
			err:    `spec.access.namespaces: Required value: name who may claim clusters, or leave access out`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, errs := ParsePolicy(field.NewPath("spec"), tc.in)
			msg := ""
			if len(errs) > 0 {
				msg = errs.ToAggregate().Error()
				got = Policy{}
			}
			if diff := cmp.Diff(tc.err, msg); diff != "" {
				t.Errorf("%s\nParsePolicy(...) error: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nParsePolicy(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRule(t *testing.T) {
	rules := []NamespaceRule{{Name: "*-b"}, {Name: "team-*"}, {Name: "team-a*"}, {Name: "team-a"}, {Name: "team-[x]"}, {Name: "tea*-y"}}
	for namespace, want := range map[string]string{
		"team-a":   "team-a",
		"team-a1":  "team-a*",
		"team-b":   "team-*",
		"other-b":  "*-b",
		"team-y":   "tea*-y",
		"other":    "",
		"":         "",
		"team-x":   "team-[x]",
		"xteam-a1": "",
	} {
		// The order of the rules does not matter.
		for range rules {
			rules = append(rules[1:], rules[0])
			got, allowed := Policy{Access: rules}.Rule(namespace)
			if got.Name != want || allowed != (want != "") {
				t.Errorf("namespace %q: got rule %q (%t), want %q", namespace, got.Name, allowed, want)
			}
		}
	}
	if got, allowed := (Policy{}).Rule("any"); !allowed || got.Limits != NoLimits() {
		t.Errorf("without rules namespaces get %v (%t)", got, allowed)
	}
}
