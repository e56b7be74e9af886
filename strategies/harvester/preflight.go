package harvester

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/strategies"
)

// Prerequisites are the namespace, the image, the networks and the StorageClass of the blueprint.
func (s *strategy) Prerequisites() (string, []strategies.Prerequisite) {
	path := field.NewPath("spec")
	qualified := func(path *field.Path, apiVersion, kind, name string) strategies.Prerequisite {
		namespace, name, _ := strings.Cut(name, "/")
		return strategies.Prerequisite{Path: path, APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
	}
	needed := []strategies.Prerequisite{
		{Path: path.Child("vmNamespace"), APIVersion: "v1", Kind: "Namespace", Name: s.spec.VMNamespace},
		qualified(path.Child("image"), "harvesterhci.io/v1beta1", "VirtualMachineImage", s.spec.Image),
	}
	for i, network := range s.spec.Networks {
		needed = append(needed, qualified(path.Child("networks").Index(i), "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", network))
	}
	if s.spec.StorageClassName != "" {
		needed = append(needed, strategies.Prerequisite{
			Path: path.Child("storageClassName"), APIVersion: "storage.k8s.io/v1", Kind: "StorageClass", Name: s.spec.StorageClassName,
		})
	}
	if s.spec.ProviderConfigRef == nil {
		return "", needed
	}
	return s.spec.ProviderConfigRef.Name, needed
}
