package strategies_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/aws"
	"github.com/rig-gateway/function-rig/strategies/harvester"
	"github.com/rig-gateway/function-rig/strategies/vsphere"
)

// table of every strategy.
func table() strategies.Table {
	return strategies.Table{"AwsBlueprint": aws.Open, "HarvesterBlueprint": harvester.Open, "VsphereBlueprint": vsphere.Open}
}

func TestOpen(t *testing.T) {
	cases := map[string]struct {
		reason    string
		kind      string
		blueprint string
		want      string
	}{
		"UnknownKind":      {reason: "The kinds that there are, are said.", kind: "NutanixBlueprint", blueprint: `{}`, want: `spec.providerRef.kind: Unsupported value: "NutanixBlueprint": supported values: "AwsBlueprint", "HarvesterBlueprint", "VsphereBlueprint"`},
		"HarvesterNetwork": {reason: "A list is no text.", kind: "HarvesterBlueprint", blueprint: `{"spec":{"networks":"vlan-10"}}`, want: `cannot decode the HarvesterBlueprint: spec.networks: Invalid value: "string": must be a list`},
		"VsphereNetwork":   {reason: "A list is no text.", kind: "VsphereBlueprint", blueprint: `{"spec":{"networks":"vlan-10"}}`, want: `cannot decode the VsphereBlueprint: spec.networks: Invalid value: "string": must be a list`},
		"VsphereFolder":    {reason: "A map is no text.", kind: "VsphereBlueprint", blueprint: `{"spec":{"folder":"rig"}}`, want: `cannot decode the VsphereBlueprint: spec.folder: Invalid value: "string": must be a map`},
		"AWSZones":         {reason: "A list is no text.", kind: "AwsBlueprint", blueprint: `{"spec":{"zones":"a"}}`, want: `cannot decode the AwsBlueprint: spec.zones: Invalid value: "string": must be a list`},
		"AWSBool":          {reason: "Other shapes go by their name.", kind: "AwsBlueprint", blueprint: `{"spec":{"encryptVolumes":"yes"}}`, want: `cannot decode the AwsBlueprint: spec.encryptVolumes: Invalid value: "string": must be a bool`},
		"NoJSON":           {reason: "What is no object at all is refused.", kind: "AwsBlueprint", blueprint: `{`, want: `cannot decode the AwsBlueprint: unexpected end of JSON input`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := table().Open(tc.kind, json.RawMessage(tc.blueprint))
			if err == nil || err.Error() != tc.want {
				t.Errorf("%s\nOpen(...):\ngot  %v\nwant %s", tc.reason, err, tc.want)
			}
		})
	}
}

func TestParts(t *testing.T) {
	pool := v1alpha1.AdmittedPool{Pool: v1alpha1.Pool{Name: "workers", Count: 3}}
	if diff := cmp.Diff([]strategies.Part{{Name: "workers", Count: 3}}, strategies.Parts(nil, "shop", pool)); diff != "" {
		t.Errorf("Parts(...): a pool that nobody divides is one part: -want, +got:\n%s", diff)
	}
}

func TestShorten(t *testing.T) {
	long := strings.Repeat("a", 30)
	cases := map[string]struct {
		reason string
		in     string
		want   string
	}{
		"Short": {reason: "A name that fits stays.", in: "shop-worker", want: "shop-worker"},
		"Fits":  {reason: "The limit itself fits.", in: long[:20], want: long[:20]},
		"Long":  {reason: "A hash of the whole name keeps two apart.", in: long, want: "aaaaaaaaaaa-3a54fc0c"},
		"Dash":  {reason: "No dash comes before the hash's.", in: "aaaaaaaaaa-bbbbbbbbbbbbbb", want: "aaaaaaaaaa-593ef238"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strategies.Shorten(tc.in, 20); got != tc.want {
				t.Errorf("%s\nShorten(%q, 20): got %s, want %s", tc.reason, tc.in, got, tc.want)
			}
		})
	}
}
