package v1alpha1

import (
	"cmp"
	"regexp"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxPoolCount and maxPoolName are the bounds of the XRD.
const (
	maxPoolCount = 500
	maxPoolName  = 30
)

var (
	kubernetesVersionPattern = regexp.MustCompile(`^v1\.[0-9]+\.[0-9]+\+rke2r[0-9]+$`)
	poolNamePattern          = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	managementNamePattern    = regexp.MustCompile(`^c-[a-z0-9]{5}$`)
)

// Default sets what an API server would default; `crossplane render` never meets one.
func (s *InfraBlueprintSpec) Default() {
	if s.Rancher.Namespace == "" {
		s.Rancher.Namespace = "fleet-default"
	}
	if b := s.Backstop; b != nil {
		const migrations, surge = 1, 3
		b.ParallelMigrations = cmp.Or(b.ParallelMigrations, new(int64(migrations)))
		b.SurgeMachines = cmp.Or(b.SurgeMachines, new(int64(surge)))
	}
}

// ValidateClusterName says whether Rancher and Fleet take the name of an XClusterBlueprint as a cluster's: a DNS label of 2 to 63
// characters that is neither "local" nor of the form c-xxxxx, which is Rancher's own (rancher/webhook, cluster
// validator; dots break Fleet).
func ValidateClusterName(path *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, problem+"; choose another name for the claim"))
	}
	if len(name) < 2 || name == "local" || managementNamePattern.MatchString(name) {
		errs = append(errs, field.Invalid(path, name, "Rancher keeps this name to itself; choose another name for the claim"))
	}
	return errs
}

// Validate says what the XRD would refuse. Sizes are left to the strategy of the provider, which knows its units.
func (s *ClusterBlueprintSpec) Validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.InfraBlueprintRef.Name == "" {
		errs = append(errs, field.Required(path.Child("infraBlueprintRef", "name"), "names the InfraBlueprint to take quota from"))
	}
	if !kubernetesVersionPattern.MatchString(s.KubernetesVersion) {
		errs = append(errs, field.Invalid(path.Child("kubernetesVersion"), s.KubernetesVersion, "must be an RKE2 release, such as v1.31.7+rke2r1"))
	}
	pools := path.Child("pools")
	if len(s.Pools) == 0 {
		return append(errs, field.Required(pools, "a cluster needs at least one pool"))
	}
	names := sets.New[string]()
	nodes := map[Role]int64{}
	for i, p := range s.Pools {
		at := pools.Index(i)
		if names.Has(p.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		names.Insert(p.Name)
		errs = append(errs, p.validate(at)...)
		for _, role := range p.Roles {
			nodes[role] += p.Count
		}
	}
	for _, role := range []Role{RoleControlPlane, RoleEtcd, RoleWorker} {
		if nodes[role] == 0 {
			errs = append(errs, field.Required(pools, "at least one pool needs the role "+string(role)))
		}
	}
	if n := nodes[RoleEtcd]; n > 0 && n%2 == 0 {
		errs = append(errs, field.Invalid(pools, n, "the pools with the role etcd must have an odd number of nodes together (1, 3, 5): an even number survives no more failures"))
	}
	return errs
}

func (p *Pool) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(p.Name) > maxPoolName || !poolNamePattern.MatchString(p.Name) {
		errs = append(errs, field.Invalid(path.Child("name"), p.Name, "must be at most 30 lower-case letters, digits and dashes, starting with a letter"))
	}
	if p.Count < 1 || p.Count > maxPoolCount {
		errs = append(errs, field.Invalid(path.Child("count"), p.Count, "must be between 1 and 500"))
	}
	if len(p.Roles) == 0 {
		errs = append(errs, field.Required(path.Child("roles"), "a pool needs at least one role"))
	}
	for i, role := range p.Roles {
		if role != RoleControlPlane && role != RoleEtcd && role != RoleWorker {
			errs = append(errs, field.NotSupported(path.Child("roles").Index(i), role, []Role{RoleControlPlane, RoleEtcd, RoleWorker}))
		}
	}
	return errs
}
