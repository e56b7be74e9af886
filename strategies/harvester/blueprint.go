package harvester

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/cloudinit"
	"github.com/rig-gateway/function-rig/strategies/size"
)

const (
	amd64 = "amd64"
	arm64 = "arm64"

	// Harvester's own defaults of its settings additional-guest-memory-overhead-ratio and overcommit-config.
	defaultMemoryRatio      = "1.5"
	defaultMemoryOvercommit = 150
)

// ratioPattern is the one that the XRD carries.
var ratioPattern = regexp.MustCompile(`^(0|10(\.0{1,3})?|[1-9](\.[0-9]{1,3})?)$`)

// complete applies the defaults and checks everything: the schema of the API does not when a blueprint is rendered
// without an API server.
func (s *strategy) complete() error {
	spec, path := &s.spec, field.NewPath("spec")
	if err := size.Default(&spec.NodeDefaults, defaultSizes); err != nil {
		return err
	}

	var errs field.ErrorList
	if u, err := url.Parse(spec.Endpoint); err != nil || u.Hostname() == "" || spec.Endpoint != "https://"+u.Host {
		errs = append(errs, field.Invalid(path.Child("endpoint"), spec.Endpoint, "must be https://, a host and a port, such as https://10.0.0.10:6443"))
	}
	if spec.VMNamespace == "" {
		errs = append(errs, field.Required(path.Child("vmNamespace"), "name the Harvester namespace of the virtual machines"))
	} else {
		errs = append(errs, strategies.Check(path.Child("vmNamespace"), spec.VMNamespace, validation.IsDNS1123Label)...)
	}
	errs = append(errs, qualify(path.Child("image"), spec.VMNamespace, &spec.Image)...)
	if len(spec.Networks) == 0 {
		errs = append(errs, field.Required(path.Child("networks"), "a node needs at least one network"))
	}
	for i := range spec.Networks {
		errs = append(errs, qualify(path.Child("networks").Index(i), spec.VMNamespace, &spec.Networks[i])...)
	}
	if spec.StorageClassName != "" {
		errs = append(errs, strategies.Check(path.Child("storageClassName"), spec.StorageClassName, validation.IsDNS1123Subdomain)...)
	}
	if strings.TrimSpace(spec.SSHUser) == "" {
		errs = append(errs, field.Required(path.Child("sshUser"), "name the user of the image, such as ubuntu"))
	}
	if spec.EnableSecureBoot && !spec.EnableEFI {
		errs = append(errs, field.Invalid(path.Child("enableSecureBoot"), true, "secure boot needs enableEFI"))
	}
	// The text is left out of the error, because it may hold passwords.
	var err error
	if s.userData, err = cloudinit.Merge(defaultUserData, spec.CloudInit); err != nil {
		errs = append(errs, field.Invalid(path.Child("cloudInit"), field.OmitValueType{}, err.Error()))
	}

	errs = append(errs, s.completeOverhead(path.Child("overhead"))...)
	if len(errs) == 0 {
		_, errs = s.Node(nil, v1alpha1.Pool{})
	}
	return errs.ToAggregate()
}

func (s *strategy) completeOverhead(path *field.Path) (errs field.ErrorList) {
	overhead := &s.spec.Overhead
	overhead.MemoryRatio = cmp.Or(overhead.MemoryRatio, defaultMemoryRatio)
	ratio, err := ledger.ParseCPU(path.Child("memoryRatio"), overhead.MemoryRatio)
	if err != nil || !ratioPattern.MatchString(string(overhead.MemoryRatio)) {
		errs = append(errs, field.Invalid(path.Child("memoryRatio"), string(overhead.MemoryRatio), "must be 0, or 1 to 10 with up to three decimals"))
	}
	s.ratio = cmp.Or(ratio, 1000)
	overhead.MemoryOvercommit = cmp.Or(overhead.MemoryOvercommit, defaultMemoryOvercommit)
	if overhead.MemoryOvercommit < 100 || overhead.MemoryOvercommit > 10000 {
		errs = append(errs, field.Invalid(path.Child("memoryOvercommit"), overhead.MemoryOvercommit, "must be a percentage from 100 to 10000"))
	}
	overhead.Architecture = cmp.Or(overhead.Architecture, amd64)
	if architectures := []string{amd64, arm64}; !slices.Contains(architectures, overhead.Architecture) {
		errs = append(errs, field.NotSupported(path.Child("architecture"), overhead.Architecture, architectures))
	}
	return errs
}

// qualify puts the namespace before a bare name.
func qualify(path *field.Path, namespace string, name *string) field.ErrorList {
	if *name == "" {
		return field.ErrorList{field.Required(path, "must be namespace/name")}
	}
	ns, object, ok := strings.Cut(*name, "/")
	if !ok {
		errs := strategies.Check(path, *name, validation.IsDNS1123Subdomain)
		*name = namespace + "/" + *name
		return errs
	}
	return append(strategies.Check(path, ns, validation.IsDNS1123Label), strategies.Check(path, object, validation.IsDNS1123Subdomain)...)
}
