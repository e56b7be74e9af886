// Package strategies turns what a cluster needs into what one provider needs.
//
// A strategy is pure: no network, clock, randomness, environment or protobuf. To add a provider, write its blueprint
// type in apis, its strategy in a folder of its own, and one line in the table that main passes.
package strategies

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
)

// Strategy builds clusters with one provider blueprint.
type Strategy interface {
	// Node resolves the size of a pool's nodes: the blueprint's defaults applied, rounded to nothing. Sizes that the
	// provider cannot build are errors that name their field below path.
	Node(path *field.Path, pool v1alpha1.Pool) (Node, field.ErrorList)
	// Cluster returns the provider's part of the chart values and the managed resources beside the Release.
	Cluster(scope Scope) (Output, error)
}

// Node is one node of a pool at a provider.
type Node struct {
	// Size that is built: milli-cpus, bytes of memory, bytes of disk, one machine.
	Size ledger.Resources
	// Footprint is what the node really takes of the infrastructure: its size with the provider's overhead.
	Footprint ledger.Resources
	// Type is the provider's machine type, where it has such.
	Type string
}

// Divider is a Strategy that builds a pool as several of Rancher's machine pools.
type Divider interface {
	// Divide a pool of a cluster. The counts add up to the pool's, the names are unique in the cluster, and both depend on
	// the blueprint and the arguments only.
	Divide(cluster string, pool v1alpha1.AdmittedPool) []Part
}

// Part of a pool is one of Rancher's machine pools.
type Part struct {
	Name  string
	Count int64
}

// Parts that a pool of a cluster is built as: one of its own name, unless the strategy divides it.
func Parts(s Strategy, cluster string, pool v1alpha1.AdmittedPool) []Part {
	if d, ok := s.(Divider); ok {
		return d.Divide(cluster, pool)
	}
	return []Part{{pool.Name, pool.Count}}
}

// Open reads a provider blueprint, a whole object as JSON, and returns the strategy bound to it. An error names the
// field below the blueprint that is wrong.
type Open func(blueprint json.RawMessage) (Strategy, error)

// Table of the strategies by the kind of their blueprint.
type Table map[string]Open

// Kinds in the table, sorted.
func (t Table) Kinds() []string {
	return slices.Sorted(maps.Keys(t))
}

// Open the blueprint with the strategy of its kind.
func (t Table) Open(kind string, blueprint json.RawMessage) (Strategy, error) {
	open, ok := t[kind]
	if !ok {
		return nil, fmt.Errorf("%w", field.NotSupported(field.NewPath("spec", "providerRef", "kind"), kind, t.Kinds()))
	}
	return open(blueprint)
}

// Scope is everything that a strategy may know of a cluster.
type Scope struct {
	// Cluster is the name of the XClusterBlueprint, which is unique, and of the Rancher cluster.
	Cluster string
	// Labels of every managed resource.
	Labels map[string]string
	// Infra is the InfraBlueprint.
	Infra v1alpha1.InfraBlueprintSpec
	// Pools to render, sorted by name, with the sizes that they were admitted with.
	Pools []v1alpha1.AdmittedPool
	// SecretNamespace is where connection secrets are written on the control plane.
	SecretNamespace string
}

// Output of a strategy.
type Output struct {
	// Values of the cluster chart: machineConfigKind, pools.<part>.machineConfig, cloudProvider and so on.
	Values map[string]any
	// SecretValues of the chart come from Secrets on the control plane when provider-helm installs it.
	SecretValues []SecretValue
	// Resources that are composed beside the Release, by their composed name. A cluster is installed once all are ready.
	Resources map[string]Resource
	// After names, for one of the Resources, the one that it comes after: it is composed paused until that one is ready. A
	// reference in the resource would do the same, but provider-kubernetes holds what is referred to with a finalizer, and
	// looks only now and then whether it may let go of it.
	After map[string]string
}

// SecretValue sets chart values from a Secret on the control plane.
type SecretValue struct {
	// Path of the value that the key holds, such as cloudProvider.harvester.token. Commas, braces and backslashes mean
	// something there, as in helm --set. Empty when the key holds chart values as YAML, in which every text can be written.
	Path string
	// Secret and Key that hold it.
	Secret v1alpha1.SecretReference
	Key    string
	// Resource of the Output that writes the Secret; empty when the Secret is there anyway.
	Resource string
}

// Resource is a managed resource as an unstructured object. Its metadata.name is unique to the cluster and stays the
// same for ever.
type Resource map[string]any

// Metadata of a managed resource. It carries its external name, its own one unless the annotations say otherwise: a
// provider would write it otherwise, and Crossplane's circuit breaker counts every write of what a cluster composes.
func Metadata(name string, labels, annotations map[string]string) map[string]any {
	all := anyMap(annotations)
	if _, ok := all[v1alpha1.AnnotationExternalName]; !ok {
		all[v1alpha1.AnnotationExternalName] = name
	}
	return map[string]any{"name": name, "labels": anyMap(labels), "annotations": all}
}

// UnnamedMetadata of a managed resource whose external name is an id that the infrastructure gives it: any other would be
// looked up there.
func UnnamedMetadata(name string, labels map[string]string) map[string]any {
	return map[string]any{"name": name, "labels": anyMap(labels)}
}

// ObjectName returns the name of one of a cluster's managed resources. A suffix has no dash, so that two clusters never
// share a name.
func ObjectName(cluster, suffix string) string {
	if strings.Contains(suffix, "-") {
		panic("a suffix with a dash could name a resource of another cluster: " + suffix)
	}
	return cluster + "-" + suffix
}

func anyMap(in map[string]string) map[string]any {
	out := make(map[string]any, len(in)+1)
	for key, text := range in {
		out[key] = text
	}
	return out
}
