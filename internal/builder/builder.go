// Package builder turns an admitted cluster into the objects that install it: a provider-helm Release of the cluster
// chart, and the provider-kubernetes Objects that watch the Rancher cluster behind it.
package builder

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
)

//go:embed base-values.yaml
var baseValues []byte

// Cluster is everything that is rendered of a cluster.
type Cluster struct {
	// Name of the XClusterBlueprint and of the Rancher cluster.
	Name string
	// Labels of everything that is composed.
	Labels map[string]string
	// Spec of the claim. Its pools are not used.
	Spec v1alpha1.ClusterBlueprintSpec
	// Infra is the spec of the InfraBlueprint.
	Infra v1alpha1.InfraBlueprintSpec
	// Chart to install.
	Chart v1alpha1.ChartSource
	// Record that is rendered.
	Record v1alpha1.QuotaRecord
	// Strategy that the cluster is built with. It lays the pools out.
	Strategy strategies.Strategy
	// Provider is what the strategy returned.
	Provider strategies.Output
	// SecretNamespace is where connection secrets are written on the control plane.
	SecretNamespace string
	// Paused keeps the provider from acting on the Release, BarrierPaused from acting on the barrier.
	Paused, BarrierPaused bool
	// Finished says that Rancher has built the cluster once, and so has made its kubeconfig.
	Finished bool
}

// Builder of clusters with one chart.
type Builder struct {
	chart  *chart.Chart
	schema *jsonschema.Schema
	base   map[string]any
}

// schemaURL is what Helm calls the schema of a chart.
const schemaURL = "file:///values.schema.json"

// New returns a builder that checks values against the schema of the chart. It does so with the library that Helm uses, but
// compiles the schema once, since that takes longer than all the rest of a run.
func New(c *chart.Chart) (*Builder, error) {
	b := &Builder{chart: c}
	if err := yaml.Unmarshal(baseValues, &b.base); err != nil {
		return nil, fmt.Errorf("cannot read base values: %w", err)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
	if err != nil {
		return nil, fmt.Errorf("cannot read the schema of chart %s: %w", c.Name(), err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(schemaURL, schema); err != nil {
		return nil, fmt.Errorf("cannot read the schema of chart %s: %w", c.Name(), err)
	}
	if b.schema, err = compiler.Compile(schemaURL); err != nil {
		return nil, fmt.Errorf("cannot compile the schema of chart %s: %w", c.Name(), err)
	}
	return b, nil
}

// ChartVersion is the version of the chart that the values are made for.
func (b *Builder) ChartVersion() string { return b.chart.Metadata.Version }

// ownedValues belong to the claim, the provider or the accountant: an InfraBlueprint that could set them could add
// machines that nobody accounts for.
func ownedValues() []string {
	return []string{
		"pools", "machineConfigKind", "cloudProvider",
		"cluster.name", "cluster.kubernetesVersion", "cluster.cloudCredentialSecretName",
	}
}

// Values merges the base values, the InfraBlueprint's defaults, the provider's part and the claim, in that order, and
// checks them against the chart's schema. Errors name the path of the value.
func (b *Builder) Values(c Cluster) (map[string]any, error) {
	defaults, err := clusterDefaults(c.Infra)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	for _, layer := range []struct {
		values map[string]any
		path   *field.Path
	}{{claimValues(c), nil}, {c.Provider.Values, nil}, {defaults, field.NewPath("spec", "clusterDefaults")}, {b.base, nil}} {
		copied, err := copyOf(layer.values)
		if err != nil {
			return nil, fmt.Errorf("cannot copy values: %w", err)
		}
		if err := clash(layer.path, values, copied); err != nil {
			return nil, err
		}
		values = chartutil.CoalesceTables(values, copied)
	}
	checked, err := copyOf(values)
	if err != nil {
		return nil, fmt.Errorf("cannot copy values: %w", err)
	}
	for _, s := range c.Provider.SecretValues {
		if s.Path == "" {
			continue
		}
		if err := setPath(checked, s.Path, "from-a-secret"); err != nil {
			return nil, err
		}
	}
	withDefaults, err := chartutil.CoalesceValues(b.chart, checked)
	if err != nil {
		return nil, fmt.Errorf("cannot apply the defaults of the chart: %w", err)
	}
	if err := b.schema.Validate(withDefaults.AsMap()); err != nil {
		_, reasons, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("the values do not fit the chart: %s", reasons)
	}
	return values, nil
}

// clash says where a lower layer has something else than a map below a map, which Helm would drop.
func clash(path *field.Path, over, under map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(under)) {
		upper, isMap := over[key].(map[string]any)
		if !isMap || under[key] == nil {
			continue
		}
		lower, isMap := under[key].(map[string]any)
		if !isMap {
			return field.Invalid(path.Child(key), under[key], "must be a map")
		}
		if err := clash(path.Child(key), upper, lower); err != nil {
			return err
		}
	}
	return nil
}

// clusterDefaults reads the InfraBlueprint's part of the values.
func clusterDefaults(infra v1alpha1.InfraBlueprintSpec) (map[string]any, error) {
	path := field.NewPath("spec", "clusterDefaults")
	if infra.ClusterDefaults == nil || len(infra.ClusterDefaults.Raw) == 0 {
		return map[string]any{}, nil
	}
	var out map[string]any
	if err := json.Unmarshal(infra.ClusterDefaults.Raw, &out); err != nil {
		return nil, field.Invalid(path, string(infra.ClusterDefaults.Raw), "must be a map of chart values")
	}
	for _, owned := range ownedValues() {
		if hasPath(out, strings.Split(owned, ".")) {
			return nil, field.Forbidden(path.Child(owned), "comes from the claim, the provider or the ledger")
		}
	}
	return out, nil
}

// claimValues are the values that the claim and its admission decide.
func claimValues(c Cluster) map[string]any {
	pools := map[string]any{}
	for _, p := range c.Record.Pools {
		for _, part := range strategies.Parts(c.Strategy, c.Name, p) {
			pool := map[string]any{"quantity": part.Count, "roles": p.Roles}
			if len(p.Labels) > 0 {
				pool["labels"] = p.Labels
			}
			if len(p.Taints) > 0 {
				pool["taints"] = p.Taints
			}
			pools[part.Name] = pool
		}
	}
	return map[string]any{
		"cluster": map[string]any{
			"name":                      c.Name,
			"kubernetesVersion":         c.Spec.KubernetesVersion,
			"cloudCredentialSecretName": c.Infra.Credentials.CloudCredentialSecretName,
			"labels":                    c.Labels,
			"annotations":               map[string]any{v1alpha1.AnnotationGeneration: strconv.FormatInt(c.Record.Generation, 10)},
		},
		"pools": pools,
	}
}

// copyOf an object as what JSON makes of it, whole numbers kept whole.
func copyOf(in any) (map[string]any, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		return nil, err
	}
	whole, ok := wholeNumbers(out).(map[string]any)
	if !ok {
		return map[string]any{}, nil
	}
	return whole, nil
}

func wholeNumbers(in any) any {
	switch v := in.(type) {
	case map[string]any:
		for k := range v {
			v[k] = wholeNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	}
	return in
}

func hasPath(in map[string]any, path []string) bool {
	v, ok := in[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	next, ok := v.(map[string]any)
	return ok && hasPath(next, path[1:])
}

func setPath(in map[string]any, path string, value any) error {
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		next, ok := in[key].(map[string]any)
		if !ok {
			if _, exists := in[key]; exists {
				return field.Invalid(field.NewPath(path), in[key], "must be a map, since a secret is put into it")
			}
			next = map[string]any{}
			in[key] = next
		}
		in = next
	}
	in[keys[len(keys)-1]] = value
	return nil
}

// maxReleaseName is Helm's limit for the name of a release.
const maxReleaseName = 53

// Release returns the provider-helm Release that installs the cluster.
func (b *Builder) Release(c Cluster) (map[string]any, error) {
	values, err := b.Values(c)
	if err != nil {
		return nil, err
	}
	annotations, err := evidence(c.Record)
	if err != nil {
		return nil, err
	}
	annotations[v1alpha1.AnnotationExternalName] = strategies.Shorten(c.Name, maxReleaseName)
	if c.Paused {
		annotations[v1alpha1.AnnotationPaused] = "true"
	}
	source := map[string]any{"name": b.chart.Name(), "repository": c.Chart.Repository, "version": c.Chart.Version}
	if ref := c.Chart.PullSecretRef; ref != nil {
		source["pullSecretRef"] = map[string]any{"name": ref.Name, "namespace": ref.Namespace}
	}
	parameters := map[string]any{
		"chart":               source,
		"namespace":           c.Infra.Rancher.Namespace,
		"skipCreateNamespace": true,
		"values":              values,
	}
	if c.Chart.PlainHTTP {
		parameters["plainHTTP"] = true
	}
	var set, valuesFrom []any
	for _, s := range slices.SortedStableFunc(slices.Values(c.Provider.SecretValues), func(a, b strategies.SecretValue) int {
		return strings.Compare(a.Path, b.Path)
	}) {
		source := map[string]any{"secretKeyRef": map[string]any{"name": s.Secret.Name, "namespace": s.Secret.Namespace, "key": s.Key}}
		if s.Path == "" {
			valuesFrom = append(valuesFrom, source)
			continue
		}
		set = append(set, map[string]any{"name": s.Path, "valueFrom": source})
	}
	if len(valuesFrom) > 0 {
		parameters["valuesFrom"] = valuesFrom
	}
	if len(set) > 0 {
		parameters["set"] = set
	}
	return map[string]any{
		"apiVersion": "helm.crossplane.io/v1beta1",
		"kind":       "Release",
		"metadata":   strategies.Metadata(c.Name, c.Labels, annotations),
		"spec": map[string]any{
			"forProvider":       parameters,
			"providerConfigRef": map[string]any{"name": c.Infra.Credentials.RancherProviderConfigRef.Name},
		},
	}, nil
}

// evidence are the annotations by which the quota that a cluster holds is known, also when its record was lost.
func evidence(record v1alpha1.QuotaRecord) (map[string]string, error) {
	holds, err := json.Marshal(record.Keeps)
	if err != nil {
		return nil, fmt.Errorf("cannot write annotation %s: %w", v1alpha1.AnnotationHolds, err)
	}
	record.SettledSince = nil
	quota, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("cannot write annotation %s: %w", v1alpha1.AnnotationQuota, err)
	}
	return map[string]string{v1alpha1.AnnotationHolds: string(holds), v1alpha1.AnnotationQuota: string(quota)}, nil
}
