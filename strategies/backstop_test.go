package strategies_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
)

const gib = int64(1) << 30

func TestParseDemand(t *testing.T) {
	limited := func(changes map[ledger.Dimension]int64) ledger.Resources {
		r := ledger.NoLimits()
		for d, v := range changes {
			r[d] = v
		}
		return r
	}
	cases := map[string]struct {
		reason string
		spec   v1alpha1.Backstop
		want   strategies.Demand
		errs   string
	}{
		"Empty": {reason: "Nothing is wanted beyond the default.", want: strategies.Demand{Limit: ledger.NoLimits()}},
		"All": {
			reason: "Amounts are in milli-cpus and bytes.",
			spec: v1alpha1.Backstop{
				ParallelMigrations: new(int64(2)), SurgeMachines: new(int64(5)), Volumes: &v1alpha1.BackstopVolumes{Count: 50, Disk: "2Ti"},
				Limit: &v1alpha1.BackstopResources{CPU: "80", Memory: "512Gi", Disk: "8Ti"},
			},
			want: strategies.Demand{
				Migrations: 2, Surge: 5, Volumes: 50, Disk: true, VolumesDisk: 2048 * gib,
				Limit: limited(map[ledger.Dimension]int64{ledger.CPU: 80_000, ledger.Memory: 512 * gib, ledger.Disk: 8192 * gib}),
			},
		},
		"LimitOfDisk": {
			reason: "A limit of disk limits disk without volumes.",
			spec:   v1alpha1.Backstop{Limit: &v1alpha1.BackstopResources{Disk: "8Ti"}},
			want:   strategies.Demand{Disk: true, Limit: limited(map[ledger.Dimension]int64{ledger.Disk: 8192 * gib})},
		},
		"Wrong": {
			reason: "Every field that cannot be read is named.",
			spec: v1alpha1.Backstop{
				ParallelMigrations: new(int64(-1)), SurgeMachines: new(int64(-2)), Volumes: &v1alpha1.BackstopVolumes{Count: -3, Disk: "many"},
				Limit: &v1alpha1.BackstopResources{CPU: "a", Memory: "b", Disk: "c"},
			},
			errs: `[spec.backstop.parallelMigrations: Invalid value: -1: must not be negative, ` +
				`spec.backstop.surgeMachines: Invalid value: -2: must not be negative, ` +
				`spec.backstop.volumes.count: Invalid value: -3: must not be negative, ` +
				`spec.backstop.volumes.disk: Invalid value: "many": must be a Kubernetes quantity in whole bytes, such as 16Gi, ` +
				`spec.backstop.limit.cpu: Invalid value: "a": must be a Kubernetes quantity in whole milli-cpus, such as 4 or 500m, ` +
				`spec.backstop.limit.memory: Invalid value: "b": must be a Kubernetes quantity in whole bytes, such as 16Gi, ` +
				`spec.backstop.limit.disk: Invalid value: "c": must be a Kubernetes quantity in whole bytes, such as 16Gi]`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, errs := strategies.ParseDemand(field.NewPath("spec", "backstop"), tc.spec)
			if tc.errs != "" {
				if err := errs.ToAggregate(); err == nil || err.Error() != tc.errs {
					t.Errorf("%s\nParseDemand(...):\ngot  %v\nwant %s", tc.reason, err, tc.errs)
				}
				return
			}
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nParseDemand(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	amounts := func(cpu, memory, disk int64) ledger.Resources {
		r := ledger.NoLimits()
		r[ledger.CPU], r[ledger.Memory], r[ledger.Disk] = cpu, memory, disk
		return r
	}
	const none = ledger.Unlimited
	quota, headroom := amounts(64_000, 256*gib, 4096*gib), amounts(33_020, 100*gib+1, none)
	reserved := ledger.Resources{56_000, 200 * gib, 1000 * gib, 10, 2}
	const mib = int64(1) << 20
	cases := map[string]struct {
		reason          string
		quota, reserved ledger.Resources
		limit           ledger.Resources
		want            ledger.Resources
		low             string
	}{
		"Default": {
			reason: "The limit follows the quota, not the use; memory is whole MiB; what the provider does not limit stays so.",
			quota:  quota, reserved: reserved, limit: amounts(none, none, none), want: amounts(97_020, 356*gib+mib, none),
		},
		"OverQuota": {
			reason: "Where the quota was cut below what is reserved, the limit leaves room for that.",
			quota:  amounts(16_000, 256*gib, 4096*gib), reserved: reserved, limit: amounts(none, none, none),
			want: amounts(89_020, 356*gib+mib, none),
		},
		"JustEnough": {
			reason: "What is reserved and the headroom is enough.",
			quota:  quota, reserved: reserved, limit: amounts(89_020, 300*gib+mib, none), want: amounts(89_020, 300*gib+mib, none),
		},
		"TooLow": {
			reason: "A milli-cpu less is refused, with what would do.",
			quota:  quota, reserved: reserved, limit: amounts(89_019, 300*gib, none),
			low: `[spec.backstop.limit.cpu: Invalid value: "89019m": 56 is reserved, and machines need 33020m of headroom: use at least 89020m, ` +
				`spec.backstop.limit.memory: Invalid value: "300Gi": 200Gi is reserved, and machines need 100.1Gi of headroom: use at least 307201Mi]`,
		},
		"NotLimited": {
			reason: "A limit in a dimension that the provider does not limit is nothing to compare.",
			quota:  quota, reserved: reserved, limit: amounts(none, none, 1), want: amounts(97_020, 356*gib+mib, none),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, low := strategies.Demand{Quota: tc.quota, Reserved: tc.reserved, Limit: tc.limit}.Limits(field.NewPath("spec", "backstop"), headroom)
			if tc.low != "" {
				if err := low.ToAggregate(); err == nil || err.Error() != tc.low {
					t.Errorf("%s\nLimits(...):\ngot  %v\nwant %s", tc.reason, err, tc.low)
				}
				return
			}
			if len(low) > 0 {
				t.Fatal(low)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nLimits(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	want := v1alpha1.BackstopResources{CPU: "33020m", Memory: "102401Mi"}
	if diff := cmp.Diff(want, strategies.Limited(headroom)); diff != "" {
		t.Errorf("Limited(...): what is not limited is left out: -want, +got:\n%s", diff)
	}
}
