package aws

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies/cloudinit"
	"github.com/rig-gateway/function-rig/strategies/size"
)

// Patterns and bounds that the XRD carries.
const maxPort = 65535

var (
	regionPattern = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]$`)
	zonePattern   = regexp.MustCompile(`^[a-z]$`)
	typePattern   = regexp.MustCompile(`^[a-z0-9-]+\.[a-z0-9-]+$`)
	idPattern     = regexp.MustCompile(`^(ami|subnet|vpc)-[0-9a-f]+$`)
)

// complete applies the defaults and checks everything: the schema of the API does not when a blueprint is rendered
// without an API server.
func (s *strategy) complete() error {
	spec, path := &s.spec, field.NewPath("spec")
	if err := size.Default(&spec.NodeDefaults, defaultSizes); err != nil {
		return err
	}
	spec.NodeDefaults.Disk = cmp.Or(spec.NodeDefaults.Disk, spec.AMIDisk)
	spec.VolumeType = cmp.Or(spec.VolumeType, "gp3")

	var errs field.ErrorList
	if !regionPattern.MatchString(spec.Region) {
		errs = append(errs, field.Invalid(path.Child("region"), spec.Region, "must be a region, such as eu-central-1"))
	}
	errs = append(errs, checkID(path.Child("vpcID"), "vpc", spec.VPCID)...)
	errs = append(errs, checkID(path.Child("ami"), "ami", spec.AMI)...)
	errs = append(errs, s.completeZones(path.Child("zones"))...)
	errs = append(errs, s.completeTypes(path.Child("instanceTypes"))...)
	errs = append(errs, s.checkSecurityGroup(path.Child("securityGroup"))...)
	if strings.TrimSpace(spec.SSHUser) == "" {
		errs = append(errs, field.Required(path.Child("sshUser"), "name the user of the image, such as ubuntu"))
	}
	if types := []string{"gp2", "gp3"}; !slices.Contains(types, spec.VolumeType) {
		errs = append(errs, field.NotSupported(path.Child("volumeType"), spec.VolumeType, types))
	}
	if choices := []string{"optional", "required"}; spec.HTTPTokens != "" && !slices.Contains(choices, spec.HTTPTokens) {
		errs = append(errs, field.NotSupported(path.Child("httpTokens"), spec.HTTPTokens, choices))
	}
	if p := spec.InstanceProfiles; p.Manage && p.ControlPlane+p.Worker != "" {
		errs = append(errs, field.Forbidden(path.Child("instanceProfiles", "manage"), "say either manage or controlPlane and worker"))
	}
	if p := spec.CloudProvider; p != nil && (!strings.HasPrefix(p.Repository, "https://") || p.Version == "") {
		errs = append(errs, field.Required(path.Child("cloudProvider"), "say the repository, https://…, and the version of the chart aws-cloud-controller-manager"))
	}
	if spec.CloudInit != "" {
		// The text is left out of the error, because it may hold passwords.
		var err error
		if s.userData, err = cloudinit.Merge("", spec.CloudInit); err != nil {
			errs = append(errs, field.Invalid(path.Child("cloudInit"), field.OmitValueType{}, err.Error()))
		}
	}
	disk, invalid := units().Quantity(ledger.Disk, path.Child("amiDisk"), spec.AMIDisk)
	if s.amiDisk = disk; invalid != nil {
		return append(errs, invalid).ToAggregate()
	}
	if len(errs) == 0 {
		_, errs = s.Node(nil, v1alpha1.Pool{})
	}
	return errs.ToAggregate()
}

func checkID(path *field.Path, kind, id string) field.ErrorList {
	if idPattern.MatchString(id) && strings.HasPrefix(id, kind+"-") {
		return nil
	}
	return field.ErrorList{field.Invalid(path, id, "must be an id, such as "+kind+"-0a1b2c3d")}
}

func (s *strategy) completeZones(path *field.Path) (errs field.ErrorList) {
	if len(s.spec.Zones) == 0 {
		errs = append(errs, field.Required(path, "nodes need at least one zone"))
	}
	names := sets.New[string]()
	for i, zone := range s.spec.Zones {
		at := path.Index(i)
		if !zonePattern.MatchString(zone.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), zone.Name, "must be the letter of a zone of the region, such as a"))
		}
		if names.Has(zone.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), zone.Name))
		}
		names.Insert(zone.Name)
		errs = append(errs, checkID(at.Child("subnetID"), "subnet", zone.SubnetID)...)
	}
	slices.SortFunc(s.spec.Zones, func(a, b v1alpha1.AwsZone) int { return cmp.Compare(a.Name, b.Name) })
	return errs
}

func (s *strategy) completeTypes(path *field.Path) (errs field.ErrorList) {
	if len(s.spec.InstanceTypes) == 0 {
		errs = append(errs, field.Required(path, "nodes need at least one instance type"))
	}
	names := sets.New[string]()
	for i, t := range s.spec.InstanceTypes {
		at := path.Index(i)
		if !typePattern.MatchString(t.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), t.Name, "must be an instance type, such as m6i.xlarge"))
		}
		if names.Has(t.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), t.Name))
		}
		names.Insert(t.Name)
		cpu, err := units().Quantity(ledger.CPU, at.Child("cpu"), t.CPU)
		if err != nil {
			errs = append(errs, err)
		}
		memory, err := units().Quantity(ledger.Memory, at.Child("memory"), t.Memory)
		if err != nil {
			errs = append(errs, err)
		}
		s.types = append(s.types, instanceType{t.Name, cpu, memory})
	}
	slices.SortFunc(s.types, func(a, b instanceType) int {
		return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.memory, b.memory), cmp.Compare(a.name, b.name))
	})
	return errs
}

func (s *strategy) checkSecurityGroup(path *field.Path) (errs field.ErrorList) {
	group := s.spec.SecurityGroup
	if group.Manage == (group.Name != "") {
		errs = append(errs, field.Required(path.Child("name"), "say either name or manage"))
	}
	if len(group.Rules) > 0 && !group.Manage {
		errs = append(errs, field.Forbidden(path.Child("rules"), "rules need manage: nothing is added to a group that exists"))
	}
	names := sets.New[string]()
	for _, rule := range nodeRules() {
		names.Insert(ruleName(rule))
	}
	for i, rule := range group.Rules {
		at := path.Child("rules").Index(i)
		if protocols := []string{"tcp", "udp"}; !slices.Contains(protocols, rule.Protocol) {
			errs = append(errs, field.NotSupported(at.Child("protocol"), rule.Protocol, protocols))
		}
		if last := lastPort(rule); rule.FromPort < 1 || last < rule.FromPort || last > maxPort {
			errs = append(errs, field.Invalid(at.Child("fromPort"), rule.FromPort, "must be at least 1 and at most toPort, which is at most 65535"))
		}
		if prefix, err := netip.ParsePrefix(rule.CIDR); rule.CIDR != "" && (err != nil || !prefix.Addr().Is4() || prefix.Masked() != prefix) {
			errs = append(errs, field.Invalid(at.Child("cidr"), rule.CIDR, "must be a range of IPv4 addresses, such as 10.0.0.0/8"))
		}
		if names.Has(ruleName(rule)) {
			errs = append(errs, field.Duplicate(at, ruleName(rule)))
		}
		names.Insert(ruleName(rule))
	}
	return errs
}
