package provisioner

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rig-gateway/function-rig/charts"
	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
)

// A served kind: its structural schema, and what validates its objects.
type served struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
}

// load every CRD as the API server does.
func load(t *testing.T) map[string]served {
	t.Helper()
	documents, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kube.Parse([]byte(documents))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]served{}
	for _, o := range objects {
		crd := apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &crd, true); err != nil {
			t.Fatalf("%s: %v", o.GetName(), err)
		}
		internal := apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			t.Fatalf("%s: %v", o.GetName(), err)
		}
		structural, err := schema.NewStructural(&internal)
		if err != nil {
			t.Fatalf("%s: %v", o.GetName(), err)
		}
		if errs := schema.ValidateStructural(nil, structural); len(errs) > 0 {
			t.Errorf("%s is not structural: %v", o.GetName(), errs.ToAggregate())
		}
		validator, _, err := validation.NewSchemaValidator(&internal)
		if err != nil {
			t.Fatalf("%s: %v", o.GetName(), err)
		}
		out[crd.Spec.Names.Kind] = served{structural, validator}
	}
	return out
}

// check an object: the paths of fields that are not in the schema, and what the schema refuses.
func (s served) check(o map[string]any) (unknown []string, refused error) {
	refused = validation.ValidateCustomResource(nil, o, s.validator).ToAggregate()
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	return pruning.PruneWithOptions(o, s.structural, true, options), refused
}

func TestChartFits(t *testing.T) {
	kinds := load(t)
	for _, values := range []string{"harvester-full.yaml", "harvester-small.yaml", "vsphere.yaml", "aws.yaml"} {
		t.Run(values, func(t *testing.T) {
			for _, o := range rendered(t, values) {
				kind, ok := kinds[o.GetKind()]
				if !ok {
					continue
				}
				unknown, err := kind.check(o.Object)
				if err != nil {
					t.Errorf("the API would refuse %s: %v", kube.Name(o), err)
				}
				if len(unknown) > 0 {
					t.Errorf("the API would drop of %s: %s", kube.Name(o), strings.Join(unknown, ", "))
				}
			}
		})
	}
}

func rendered(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	chart, err := charts.RKE2Cluster()
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ReadValuesFile("../../../charts/testdata/" + values)
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "shop", Namespace: "fleet-default"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, file := range files {
		objects, err := kube.Parse([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, objects...)
	}
	if !slices.ContainsFunc(out, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Cluster" }) {
		t.Fatal("the chart renders no Cluster")
	}
	return out
}

func TestSchemas(t *testing.T) {
	kinds := load(t)
	type want struct {
		unknown []string
		refused bool
	}
	cases := map[string]struct {
		reason string
		object string
		want   want
	}{
		"UnknownField": {
			reason: "A field that Rancher does not have is dropped.",
			object: `{kind: Cluster, metadata: {name: shop}, spec: {rkeConfig: {controlPlaneConfig: {}}}}`,
			want:   want{unknown: []string{"spec.rkeConfig.controlPlaneConfig"}},
		},
		"FreeMap": {
			reason: "RKE2 configuration and chart values are free.",
			object: `{kind: Cluster, metadata: {name: shop}, spec: {rkeConfig: {machineGlobalConfig: {cni: cilium}, chartValues: {rke2-cilium: {a: 1}}}}}`,
		},
		"PoolWithoutConfig": {
			reason: "A pool needs a machine config.",
			object: `{kind: Cluster, metadata: {name: shop}, spec: {rkeConfig: {machinePools: [{name: all, quantity: 1, workerRole: true}]}}}`,
			want:   want{refused: true},
		},
		"NumberForString": {
			reason: "A driver's integer is a string in its machine config.",
			object: `{kind: HarvesterConfig, metadata: {name: shop}, cpuCount: 4}`,
			want:   want{refused: true},
		},
		"SpecInConfig": {
			reason: "A machine config has its fields at its root.",
			object: `{kind: HarvesterConfig, metadata: {name: shop}, spec: {cpuCount: "4"}}`,
			want:   want{unknown: []string{"spec"}},
		},
		"StringForArray": {
			reason: "vSphere's network is a list.",
			object: `{kind: VmwarevsphereConfig, metadata: {name: shop}, network: vlan-10}`,
			want:   want{refused: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			parsed, err := kube.Parse([]byte(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			unknown, refused := kinds[parsed[0].GetKind()].check(parsed[0].Object)
			if diff := cmp.Diff(tc.want, want{unknown, refused != nil}, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%s\n-want, +got (%v):\n%s", tc.reason, refused, diff)
			}
		})
	}
}
