package vsphere

import (
	"cmp"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies/cloudinit"
	"github.com/rig-gateway/function-rig/strategies/size"
)

// Patterns and bounds that the XRD carries.
const (
	leastMHz = 100
	mostMHz  = 10000
)

var (
	serverPattern = regexp.MustCompile(`^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$`)
	folderPattern = regexp.MustCompile(`^[^/]+(/[^/]+)*$`)
)

// complete applies the defaults and checks everything: the schema of the API does not when a blueprint is rendered
// without an API server.
func (s *strategy) complete() error {
	spec, path := &s.spec, field.NewPath("spec")
	if err := size.Default(&spec.NodeDefaults, defaultSizes); err != nil {
		return err
	}
	spec.NodeDefaults.Disk = cmp.Or(spec.NodeDefaults.Disk, spec.TemplateDisk)

	var errs field.ErrorList
	if !serverPattern.MatchString(spec.Server) {
		errs = append(errs, field.Invalid(path.Child("server"), spec.Server, "must be a host name or an IPv4 address, without scheme and port"))
	}
	for _, required := range []struct{ name, value, detail string }{
		{"datacenter", spec.Datacenter, "must be an inventory path, such as /fra1"},
		{"template", spec.Template, "must be an inventory path, or the name of an item of contentLibrary"},
		{"sshUser", spec.SSHUser, "name the user that Rancher logs in with, such as rancher"},
	} {
		if strings.TrimSpace(required.value) == "" {
			errs = append(errs, field.Required(path.Child(required.name), required.detail))
		}
	}
	if (spec.Datastore == "") == (spec.DatastoreCluster == "") {
		errs = append(errs, field.Required(path.Child("datastore"), "say either datastore or datastoreCluster"))
	}
	if len(spec.Networks) == 0 {
		errs = append(errs, field.Required(path.Child("networks"), "a node needs at least one network"))
	}
	for i, network := range spec.Networks {
		if network == "" {
			errs = append(errs, field.Required(path.Child("networks").Index(i), "must be an inventory path"))
		}
	}
	errs = append(errs, s.checkPlacement(path)...)
	if ref := spec.CloudProvider; ref != nil && (ref.ValuesSecretRef.Name == "" || ref.ValuesSecretRef.Namespace == "") {
		errs = append(errs, field.Required(path.Child("cloudProvider", "valuesSecretRef"), "name a Secret on the control plane and its namespace"))
	}
	// The driver adds its own user and group (rancher/machine, addSSHUserToYaml). The text is left out of the error, because
	// it may hold passwords.
	var err error
	if s.userData, err = cloudinit.Merge(defaultUserData, spec.CloudInit, "users", "groups"); err != nil {
		errs = append(errs, field.Invalid(path.Child("cloudInit"), field.OmitValueType{}, err.Error()))
	}
	disk, invalid := units().Quantity(ledger.Disk, path.Child("templateDisk"), spec.TemplateDisk)
	if s.templateDisk = disk; invalid != nil {
		return append(errs, invalid).ToAggregate()
	}
	if len(errs) == 0 {
		_, errs = s.Node(nil, v1alpha1.Pool{})
	}
	return errs.ToAggregate()
}

// checkPlacement checks folder and resource pool.
func (s *strategy) checkPlacement(path *field.Path) (errs field.ErrorList) {
	folder, at := s.spec.Folder, path.Child("folder")
	if folder.Path != "" && !folderPattern.MatchString(folder.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), folder.Path, "must be a path below the datacenter's VM folder, such as rig/prod"))
	}
	if folder.Manage && folder.DatacenterID == "" {
		errs = append(errs, field.Required(at.Child("datacenterID"), "manage needs the managed object id of the datacenter, such as datacenter-2"))
	}
	pool, at := s.spec.ResourcePool, path.Child("resourcePool")
	if pool.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), "must be an inventory path, such as /fra1/host/c1/Resources/rig"))
	}
	if pool.Manage && pool.ParentID == "" {
		errs = append(errs, field.Required(at.Child("parentID"), "manage needs the managed object id of the resource pool at path, such as resgroup-8"))
	}
	if pool.GrandparentID != "" && (pool.ParentID == "" || pool.MHzPerCPU == 0) {
		errs = append(errs, field.Required(at.Child("parentID"), "grandparentID needs parentID and mhzPerCPU"))
	}
	if (pool.Manage || pool.MHzPerCPU != 0) && (pool.MHzPerCPU < leastMHz || pool.MHzPerCPU > mostMHz) {
		errs = append(errs, field.Invalid(at.Child("mhzPerCPU"), pool.MHzPerCPU, "must be the clock of a core of the hosts, from 100 to 10000 MHz"))
	}
	return errs
}
