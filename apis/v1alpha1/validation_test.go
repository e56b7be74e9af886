package v1alpha1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidateClusterName(t *testing.T) {
	cases := map[string]struct {
		reason string
		name   string
		valid  bool
	}{
		"Usual":         {reason: "A claim's name and Crossplane's suffix.", name: "payments-dev-x7k2p", valid: true},
		"Longest":       {reason: "63 characters are a label.", name: strings.Repeat("a", 63), valid: true},
		"TooLong":       {reason: "64 are none.", name: strings.Repeat("a", 64)},
		"Shortest":      {reason: "Rancher wants two characters.", name: "aa", valid: true},
		"TooShort":      {reason: "One is not enough.", name: "a"},
		"Empty":         {reason: "None is not enough.", name: ""},
		"Dots":          {reason: "Fleet takes no dots.", name: "payments.dev"},
		"UpperCase":     {reason: "A label has none.", name: "Payments"},
		"DashAtTheEnd":  {reason: "A label does not end so.", name: "payments-"},
		"Local":         {reason: "Rancher's own cluster.", name: "local"},
		"LocalAndMore":  {reason: "This is not it.", name: "local-x7k2p", valid: true},
		"Management":    {reason: "Rancher makes such names.", name: "c-x7k2p"},
		"NotManagement": {reason: "It makes them of five characters only.", name: "c-x7k2p9", valid: true},
		"DigitFirst":    {reason: "A label may start with one.", name: "1payments", valid: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs := ValidateClusterName(field.NewPath("metadata", "name"), tc.name)
			if (len(errs) == 0) != tc.valid {
				t.Errorf("%s\nValidateClusterName(%q): %v", tc.reason, tc.name, errs)
			}
			for _, err := range errs {
				if err.Field != "metadata.name" {
					t.Errorf("%s\nValidateClusterName(%q) names %s", tc.reason, tc.name, err.Field)
				}
			}
		})
	}
}

func TestValidate(t *testing.T) {
	all := func(count int64) Pool {
		return Pool{Name: "all", Count: count, Roles: []Role{RoleControlPlane, RoleEtcd, RoleWorker}}
	}
	workers := func(change func(*Pool)) []Pool {
		p := Pool{Name: "workers", Count: 2, Roles: []Role{RoleWorker}}
		change(&p)
		return []Pool{all(3), p}
	}
	cases := map[string]struct {
		reason string
		change func(*ClusterBlueprintSpec)
		want   []string
	}{
		"Valid": {reason: "Three nodes for everything.", change: func(*ClusterBlueprintSpec) {}},
		"SplitEtcd": {reason: "Pools with etcd count together.", change: func(s *ClusterBlueprintSpec) {
			s.Pools = append(s.Pools, Pool{Name: "etcd", Count: 2, Roles: []Role{RoleEtcd}})
		}},
		"NoReference":  {reason: "Quota comes from somewhere.", change: func(s *ClusterBlueprintSpec) { s.InfraBlueprintRef.Name = "" }, want: []string{"FieldValueRequired spec.infraBlueprintRef.name"}},
		"Version":      {reason: "A Kubernetes version is no RKE2 release.", change: func(s *ClusterBlueprintSpec) { s.KubernetesVersion = "v1.31.7" }, want: []string{"FieldValueInvalid spec.kubernetesVersion"}},
		"VersionLines": {reason: "Nothing follows the version.", change: func(s *ClusterBlueprintSpec) { s.KubernetesVersion += "\n" }, want: []string{"FieldValueInvalid spec.kubernetesVersion"}},
		"NoPools":      {reason: "A cluster has nodes.", change: func(s *ClusterBlueprintSpec) { s.Pools = nil }, want: []string{"FieldValueRequired spec.pools"}},
		"Twice":        {reason: "A pool's name is its own.", change: func(s *ClusterBlueprintSpec) { s.Pools = workers(func(p *Pool) { p.Name = "all" }) }, want: []string{"FieldValueDuplicate spec.pools[1].name"}},
		"Name":         {reason: "A name starts with a letter.", change: func(s *ClusterBlueprintSpec) { s.Pools = workers(func(p *Pool) { p.Name = "2nd" }) }, want: []string{"FieldValueInvalid spec.pools[1].name"}},
		"LongName":     {reason: "It has 30 characters.", change: func(s *ClusterBlueprintSpec) { s.Pools = workers(func(p *Pool) { p.Name = strings.Repeat("a", 31) }) }, want: []string{"FieldValueInvalid spec.pools[1].name"}},
		"NoName":       {reason: "It has one at least.", change: func(s *ClusterBlueprintSpec) { s.Pools = workers(func(p *Pool) { p.Name = "" }) }, want: []string{"FieldValueInvalid spec.pools[1].name"}},
		"NoNodes":      {reason: "A pool has nodes.", change: func(s *ClusterBlueprintSpec) { s.Pools = workers(func(p *Pool) { p.Count = 0 }) }, want: []string{"FieldValueInvalid spec.pools[1].count"}},
		"Negative":     {reason: "Nodes are not negative.", change: func(s *ClusterBlueprintSpec) { s.Pools = workers(func(p *Pool) { p.Count = -1 }) }, want: []string{"FieldValueInvalid spec.pools[1].count"}},
		"Most":         {reason: "500 are allowed.", change: func(s *ClusterBlueprintSpec) { s.Pools = workers(func(p *Pool) { p.Count = 500 }) }},
		"TooMany":      {reason: "501 are not.", change: func(s *ClusterBlueprintSpec) { s.Pools = workers(func(p *Pool) { p.Count = 501 }) }, want: []string{"FieldValueInvalid spec.pools[1].count"}},
		"NoRoles":      {reason: "A pool does something.", change: func(s *ClusterBlueprintSpec) { s.Pools = workers(func(p *Pool) { p.Roles = nil }) }, want: []string{"FieldValueRequired spec.pools[1].roles"}},
		"Role":         {reason: "A role is known.", change: func(s *ClusterBlueprintSpec) { s.Pools = workers(func(p *Pool) { p.Roles = []Role{"worker", "db"} }) }, want: []string{"FieldValueNotSupported spec.pools[1].roles[1]"}},
		"EvenEtcd":     {reason: "An even number survives no more failures.", change: func(s *ClusterBlueprintSpec) { s.Pools = []Pool{all(2)} }, want: []string{"FieldValueInvalid spec.pools"}},
		"OnlyWorkers":  {reason: "Every role is needed.", change: func(s *ClusterBlueprintSpec) { s.Pools = []Pool{{Name: "w", Count: 1, Roles: []Role{RoleWorker}}} }, want: []string{"FieldValueRequired spec.pools", "FieldValueRequired spec.pools"}},
		"NegativeSum": {
			reason: "Counts that cancel out hide no role.", want: []string{"FieldValueInvalid spec.pools[1].count", "FieldValueRequired spec.pools"},
			change: func(s *ClusterBlueprintSpec) {
				s.Pools = []Pool{all(1), {Name: "w", Count: -1, Roles: []Role{RoleWorker}}}
			},
		},
		"Several": {
			reason: "Everything that is wrong is said at once.", want: []string{"FieldValueInvalid spec.kubernetesVersion", "FieldValueInvalid spec.pools[1].name", "FieldValueInvalid spec.pools[1].count"},
			change: func(s *ClusterBlueprintSpec) {
				s.KubernetesVersion = ""
				s.Pools = workers(func(p *Pool) { p.Name, p.Count = "UP", 0 })
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := ClusterBlueprintSpec{InfraBlueprintRef: InfraBlueprintReference{Name: "prod"}, KubernetesVersion: "v1.31.7+rke2r1", Pools: []Pool{all(3)}}
			tc.change(&s)
			var got []string
			for _, err := range s.Validate(field.NewPath("spec")) {
				got = append(got, string(err.Type)+" "+err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nValidate(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDefault(t *testing.T) {
	s := InfraBlueprintSpec{}
	s.Default()
	if s.Rancher.Namespace != "fleet-default" {
		t.Errorf("Default(): Rancher namespace %q", s.Rancher.Namespace)
	}
	s.Rancher.Namespace = "fleet-prod"
	s.Default()
	if s.Rancher.Namespace != "fleet-prod" {
		t.Errorf("Default() overwrites: Rancher namespace %q", s.Rancher.Namespace)
	}
	if s.Backstop != nil {
		t.Errorf("Default(): a backstop is off unless it is asked for, got %v", s.Backstop)
	}
	s.Backstop = &Backstop{SurgeMachines: new(int64(0))}
	s.Default()
	if got := s.Backstop; *got.ParallelMigrations != 1 || *got.SurgeMachines != 0 {
		t.Errorf("Default(): %d migrations, want 1; %d machines of a surge, want the 0 that was asked for", *got.ParallelMigrations, *got.SurgeMachines)
	}
}
