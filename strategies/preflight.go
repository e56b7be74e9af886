package strategies

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Preflight is a Strategy whose blueprint refers to things that must be there before machines are built.
type Preflight interface {
	// Prerequisites of the blueprint, and the ProviderConfig of provider-kubernetes to look them up with; an empty one where the
	// blueprint names none. Both depend on the blueprint only.
	Prerequisites() (providerConfig string, needed []Prerequisite)
}

// Prerequisite is one thing that must be there.
type Prerequisite struct {
	// Path of the blueprint's field that refers to it.
	Path *field.Path
	// APIVersion, Kind, Namespace and Name of it; no namespace where it has none.
	APIVersion, Kind, Namespace, Name string
}

// String is what a user calls it, such as VirtualMachineImage "default/image-x7k2p".
func (p Prerequisite) String() string {
	name := p.Name
	if p.Namespace != "" {
		name = p.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %q", p.Kind, name)
}

// Manifest refers to it as an object without content.
func (p Prerequisite) Manifest() map[string]any {
	metadata := map[string]any{"name": p.Name}
	if p.Namespace != "" {
		metadata["namespace"] = p.Namespace
	}
	return map[string]any{"apiVersion": p.APIVersion, "kind": p.Kind, "metadata": metadata}
}
