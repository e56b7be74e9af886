package harvester

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
)

func TestPrerequisites(t *testing.T) {
	type prerequisite struct{ Path, Is, APIVersion string }
	namespace := prerequisite{"spec.vmNamespace", `Namespace "rig-prod"`, "v1"}
	image := func(name string) prerequisite {
		return prerequisite{"spec.image", `VirtualMachineImage "` + name + `"`, "harvesterhci.io/v1beta1"}
	}
	network := func(path, name string) prerequisite {
		return prerequisite{path, `NetworkAttachmentDefinition "` + name + `"`, "k8s.cni.cncf.io/v1"}
	}
	cases := map[string]struct {
		reason string
		spec   func(*v1alpha1.HarvesterBlueprintSpec)
		config string
		want   []prerequisite
	}{
		"Everything": {
			"Every reference is looked up in its own namespace.",
			func(s *v1alpha1.HarvesterBlueprintSpec) {
				s.Image, s.Networks, s.StorageClassName = "default/image-a", []string{"default/vlan-10", "net/vlan-11"}, "longhorn-r3"
				s.ProviderConfigRef = &v1alpha1.ProviderConfigReference{Name: "harvester"}
			},
			"harvester",
			[]prerequisite{
				namespace, image("default/image-a"), network("spec.networks[0]", "default/vlan-10"), network("spec.networks[1]", "net/vlan-11"),
				{"spec.storageClassName", `StorageClass "longhorn-r3"`, "storage.k8s.io/v1"},
			},
		},
		"Bare": {
			"A bare name is one of the namespace of the virtual machines. No StorageClass is Harvester's own default.",
			func(s *v1alpha1.HarvesterBlueprintSpec) {
				s.Image, s.Networks, s.StorageClassName = "image-a", []string{"vlan-10"}, ""
			},
			"",
			[]prerequisite{namespace, image("rig-prod/image-a"), network("spec.networks[0]", "rig-prod/vlan-10")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config, needed := open(t, spec(func(s *v1alpha1.HarvesterBlueprintSpec) { s.VMNamespace = "rig-prod" }, tc.spec)).(strategies.Preflight).Prerequisites()
			var got []prerequisite
			for _, p := range needed {
				got = append(got, prerequisite{p.Path.String(), p.String(), p.APIVersion})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nPrerequisites(): -want, +got:\n%s", tc.reason, diff)
			}
			if config != tc.config {
				t.Errorf("%s\nPrerequisites(): ProviderConfig %q, want %q", tc.reason, config, tc.config)
			}
		})
	}
}
