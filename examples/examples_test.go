package examples

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/aws"
	"github.com/rig-gateway/function-rig/strategies/harvester"
	"github.com/rig-gateway/function-rig/strategies/vsphere"
)

const group = "rig-gateway.io/"

// api of a kind: what an API server checks it with.
type api struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// check an object as an API server does when it is created, and refuse what it would only drop.
func (a api) check(o map[string]any) []string {
	var problems []string
	for _, err := range validation.ValidateCustomResource(nil, o, a.schema) {
		problems = append(problems, err.Error())
	}
	errs, _ := a.rules.Validate(context.Background(), nil, a.structural, o, nil, celconfig.RuntimeCELCostBudget)
	for _, err := range errs {
		problems = append(problems, err.Error())
	}
	dropped := pruning.PruneWithOptions(o, a.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	return append(problems, dropped...)
}

// apis by the kinds of the composite resources and of the claims.
func apis(t *testing.T) map[string]api {
	t.Helper()
	out := map[string]api{}
	files, err := filepath.Glob("../apis/*/definition.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("cannot find the XRDs: %v", err)
	}
	for _, file := range files {
		var xrd struct {
			Spec struct {
				Names      struct{ Kind string }
				ClaimNames struct{ Kind string }
				Versions   []struct {
					Schema struct {
						OpenAPIV3Schema *apiextensionsv1.JSONSchemaProps
					}
				}
			}
		}
		if err := yaml.Unmarshal(read(t, file), &xrd); err != nil {
			t.Fatal(err)
		}
		props := apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(xrd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
			t.Fatal(err)
		}
		// Crossplane adds these to every claim.
		preserve := true
		spec := props.Properties["spec"]
		spec.Properties["compositionUpdatePolicy"] = apiextensions.JSONSchemaProps{Type: "string"}
		for _, name := range []string{"compositionRevisionSelector", "writeConnectionSecretToRef"} {
			spec.Properties[name] = apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}
		}
		structural, err := structuralschema.NewStructural(&props)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		schema, _, err := validation.NewSchemaValidator(&props)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		a := api{structural, schema, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
		out[xrd.Spec.Names.Kind], out[xrd.Spec.ClaimNames.Kind] = a, a
	}
	return out
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// parse YAML as an API server does: whole numbers stay whole.
func parse[T any](t *testing.T, text string) (out T) {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// objects of ours in all examples, by file.
func objects(t *testing.T) map[string][]map[string]any {
	t.Helper()
	out := map[string][]map[string]any{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		for document := range strings.SplitSeq(string(read(t, path)), "\n---\n") {
			o := parse[map[string]any](t, document)
			if version, _ := o["apiVersion"].(string); strings.HasPrefix(version, group) {
				out[path] = append(out[path], o)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever is in the examples, an API server takes and the function can use.
func TestExamples(t *testing.T) {
	kinds := apis(t)
	table := strategies.Table{"AwsBlueprint": aws.Open, "HarvesterBlueprint": harvester.Open, "VsphereBlueprint": vsphere.Open}
	seen := map[string]bool{}
	for path, list := range objects(t) {
		for _, o := range list {
			kind := o["kind"].(string)
			seen[kind] = true
			for _, problem := range kinds[kind].check(o) {
				t.Errorf("%s: %s: %s", path, kind, problem)
			}
			if !slices.Contains(table.Kinds(), kind) {
				continue
			}
			raw, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := table.Open(kind, raw); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	for _, kind := range append(table.Kinds(), "InfraBlueprint", "ClusterBlueprint") {
		if !seen[kind] {
			t.Errorf("no example has a %s", kind)
		}
	}
}

// The rules of the provider blueprints that their schema cannot say.
func TestRules(t *testing.T) {
	cases := map[string]struct {
		reason string
		file   string
		change string
		want   string
	}{
		"TwoDatastores":    {reason: "The driver would ignore one.", file: "vsphere/vsphereblueprint.yaml", change: `{datastoreCluster: /fra1/datastore/dsc1}`, want: "say either datastore or datastoreCluster"},
		"FolderWithoutID":  {reason: "provider-vsphere knows ids only.", file: "vsphere/vsphereblueprint.yaml", change: `{folder: {manage: true}}`, want: "manage needs datacenterID"},
		"PoolWithoutClock": {reason: "A limit is in MHz.", file: "vsphere/vsphereblueprint.yaml", change: `{resourcePool: {path: /a, manage: true, parentID: b}}`, want: "manage needs parentID and mhzPerCPU"},
		"BackstopNoClock":  {reason: "So is the limit of a backstop.", file: "vsphere/vsphereblueprint.yaml", change: `{resourcePool: {path: /a, parentID: b, grandparentID: c}}`, want: "grandparentID needs parentID and mhzPerCPU"},
		"NegativeSurge":    {reason: "A number of machines.", file: "platform/infrablueprint.yaml", change: `{backstop: {surgeMachines: -1}}`, want: "spec.backstop.surgeMachines"},
		"VolumesNoDisk":    {reason: "Volumes take disk.", file: "platform/infrablueprint.yaml", change: `{backstop: {volumes: {count: 4}}}`, want: "spec.backstop.volumes.disk"},
		"NetworkString":    {reason: "A network is one of a list.", file: "vsphere/vsphereblueprint.yaml", change: `{networks: /fra1/network/vlan-10}`, want: `must be of type array: "string"`},
		"NoRancher":        {reason: "Rancher must be reached.", file: "platform/infrablueprint.yaml", change: `{credentials: {cloudCredentialSecretName: a}}`, want: "say either rancherProviderConfigRef or rancherKubeconfigSecretRef"},
		"TwoRanchers":      {reason: "It is this one or that one.", file: "platform/infrablueprint.yaml", change: `{credentials: {cloudCredentialSecretName: a, rancherProviderConfigRef: {name: a}, rancherKubeconfigSecretRef: {namespace: a, name: a}}}`, want: "say either rancherProviderConfigRef or rancherKubeconfigSecretRef"},
		"TwoHarvesters":    {reason: "It is this one or that one.", file: "platform/infrablueprint.yaml", change: `{credentials: {cloudCredentialSecretName: a, rancherProviderConfigRef: {name: a}, infrastructureProviderConfigRef: {name: a}, infrastructureKubeconfigSecretRef: {namespace: a, name: a}}}`, want: "say either infrastructureProviderConfigRef or infrastructureKubeconfigSecretRef"},
		"TwoGroups":        {reason: "It is this one or that one.", file: "aws/awsblueprint.yaml", change: `{securityGroup: {name: a, manage: true}}`, want: "say either name or manage"},
		"NoGroup":          {reason: "The driver's own group is open to everybody.", file: "aws/awsblueprint.yaml", change: `{securityGroup: {}}`, want: "say either name or manage"},
		"RulesOfOthers":    {reason: "A group that exists is not ours.", file: "aws/awsblueprint.yaml", change: `{securityGroup: {name: a, rules: [{protocol: tcp, fromPort: 22}]}}`, want: "rules need manage"},
		"TwoProfiles":      {reason: "It is ours or yours.", file: "aws/awsblueprint.yaml", change: `{instanceProfiles: {manage: true, worker: a}}`, want: "say either manage or controlPlane and worker"},
		"ZoneWithRegion":   {reason: "The driver puts the region before the letter.", file: "aws/awsblueprint.yaml", change: `{zones: [{name: eu-central-1a, subnetID: subnet-0a}]}`, want: "spec.zones[0].name"},
	}
	kinds := apis(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := parse[map[string]any](t, string(read(t, tc.file)))
			maps.Copy(o["spec"].(map[string]any), parse[map[string]any](t, tc.change))
			problems := kinds[o["kind"].(string)].check(o)
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, tc.want) }) {
				t.Errorf("%s\nwant a problem with %q, got %q", tc.reason, tc.want, problems)
			}
		})
	}
}

// The nodes of a running cluster must not move to other zones.
func TestZonesAreImmutable(t *testing.T) {
	a := apis(t)["AwsBlueprint"]
	with := func(zones string) map[string]any {
		o := parse[map[string]any](t, string(read(t, "aws/awsblueprint.yaml")))
		o["spec"].(map[string]any)["zones"] = parse[[]any](t, zones)
		return o
	}
	before := with(`[{name: a, subnetID: subnet-0a}, {name: b, subnetID: subnet-0b}]`)
	for zones, refused := range map[string]bool{
		`[{name: a, subnetID: subnet-0a}, {name: b, subnetID: subnet-0b}]`: false,
		`[{name: a, subnetID: subnet-0a}]`:                                 true,
		`[{name: a, subnetID: subnet-0a}, {name: b, subnetID: subnet-0c}]`: true,
	} {
		errs, _ := a.rules.Validate(context.Background(), nil, a.structural, with(zones), before, celconfig.RuntimeCELCostBudget)
		if (len(errs) > 0) != refused {
			t.Errorf("zones %s: want refused %t, got %v", zones, refused, errs)
		}
	}
}
