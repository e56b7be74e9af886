package vsphere

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/strategytest"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

type change = func(*v1alpha1.VsphereBlueprintSpec)

// spec of a minimal blueprint, with changes.
func spec(changes ...change) v1alpha1.VsphereBlueprintSpec {
	s := v1alpha1.VsphereBlueprintSpec{
		Server:       "vcenter.example.org",
		Datacenter:   "/fra1",
		Datastore:    "/fra1/datastore/ds1",
		Networks:     []string{"/fra1/network/vlan-10"},
		Template:     "/fra1/vm/templates/ubuntu-2404",
		TemplateDisk: "20Gi",
		ResourcePool: v1alpha1.VsphereResourcePool{Path: "/fra1/host/c1/Resources/rig"},
		SSHUser:      "rancher",
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func open(t testing.TB, changes ...change) strategies.Strategy {
	t.Helper()
	opened, err := Open(blueprint(t, spec(changes...)))
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func blueprint(t testing.TB, s v1alpha1.VsphereBlueprintSpec) json.RawMessage {
	t.Helper()
	b := v1alpha1.VsphereBlueprint{Spec: s}
	b.Name = "fra1"
	return strategytest.Encode(t, b)
}

func TestOpenRefusals(t *testing.T) {
	cases := map[string]struct {
		reason string
		change change
		want   string
	}{
		"ServerMissing": {
			"The cloud provider needs an address.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.Server = "" },
			`spec.server: Invalid value: "": must be a host name or an IPv4 address, without scheme and port`,
		},
		"ServerURL": {
			"The name is a key of a Secret.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.Server = "https://vcenter.example.org" },
			`spec.server: Invalid value: "https://vcenter.example.org": must be a host name or an IPv4 address, without scheme and port`,
		},
		"DatacenterMissing": {
			"A path starts with a datacenter.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.Datacenter = "" },
			`spec.datacenter: Required value: must be an inventory path, such as /fra1`,
		},
		"TemplateMissing": {
			"A node is cloned from something.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.Template = "" },
			`spec.template: Required value: must be an inventory path, or the name of an item of contentLibrary`,
		},
		"SSHUser": {
			"Rancher logs in as somebody.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.SSHUser = " " },
			`spec.sshUser: Required value: name the user that Rancher logs in with, such as rancher`,
		},
		"NoDatastore": {
			"A disk is somewhere.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.Datastore = "" },
			`spec.datastore: Required value: say either datastore or datastoreCluster`,
		},
		"TwoDatastores": {
			"The driver would ignore one of them.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.DatastoreCluster = "/fra1/datastore/dsc1" },
			`spec.datastore: Required value: say either datastore or datastoreCluster`,
		},
		"NetworksMissing": {
			"A node without a network joins nothing.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.Networks = nil },
			`spec.networks: Required value: a node needs at least one network`,
		},
		"NetworkEmpty": {
			"An empty entry is no network; the path counts from zero.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.Networks = []string{"/fra1/network/vlan-10", ""} },
			`spec.networks[1]: Required value: must be an inventory path`,
		},
		"FolderAbsolute": {
			"A folder is below the datacenter's VM folder.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.Folder.Path = "/fra1/vm/rig" },
			`spec.folder.path: Invalid value: "/fra1/vm/rig": must be a path below the datacenter's VM folder, such as rig/prod`,
		},
		"FolderWithoutDatacenterID": {
			"provider-vsphere knows ids only.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.Folder.Manage = true },
			`spec.folder.datacenterID: Required value: manage needs the managed object id of the datacenter, such as datacenter-2`,
		},
		"PoolMissing": {
			"Without one, the driver fails where there is more than one.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.ResourcePool.Path = "" },
			`spec.resourcePool.path: Required value: must be an inventory path, such as /fra1/host/c1/Resources/rig`,
		},
		"PoolWithoutParentID": {
			"provider-vsphere knows ids only.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.ResourcePool.Manage, s.ResourcePool.MHzPerCPU = true, 2600 },
			`spec.resourcePool.parentID: Required value: manage needs the managed object id of the resource pool at path, such as resgroup-8`,
		},
		"GrandparentAlone": {
			"The pool is found by its id, and limited in MHz.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.ResourcePool.GrandparentID = "resgroup-2" },
			`spec.resourcePool.parentID: Required value: grandparentID needs parentID and mhzPerCPU`,
		},
		"PoolWithoutClock": {
			"A limit is in MHz, and vCPUs are not.",
			func(s *v1alpha1.VsphereBlueprintSpec) {
				s.ResourcePool.Manage, s.ResourcePool.ParentID = true, "resgroup-8"
			},
			`spec.resourcePool.mhzPerCPU: Invalid value: 0: must be the clock of a core of the hosts, from 100 to 10000 MHz`,
		},
		"ClockInGHz": {
			"A wrong unit would throttle everything.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.ResourcePool.MHzPerCPU = 3 },
			`spec.resourcePool.mhzPerCPU: Invalid value: 3: must be the clock of a core of the hosts, from 100 to 10000 MHz`,
		},
		"NoValuesSecret": {
			"The account comes from a Secret.",
			func(s *v1alpha1.VsphereBlueprintSpec) {
				s.CloudProvider = &v1alpha1.VsphereCloudProvider{ValuesSecretRef: v1alpha1.SecretReference{Name: "a"}}
			},
			`spec.cloudProvider.valuesSecretRef: Required value: name a Secret on the control plane and its namespace`,
		},
		"CloudInitScript": {
			"A script cannot be merged, and its text may hold passwords.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.CloudInit = "#!/bin/sh\necho hunter2" },
			`spec.cloudInit: Invalid value: must be cloud-config YAML: the only header allowed is #cloud-config`,
		},
		"CloudInitUsers": {
			"The driver appends to the users, and panics where they are no list.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.CloudInit = "users: hunter2" },
			`spec.cloudInit: Invalid value: users: must be a list, since the node driver appends to it`,
		},
		"TemplateDiskMissing": {
			"Without it a disk that cannot shrink is not charged.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.TemplateDisk = "" },
			`spec.templateDisk: Required value: must be a Kubernetes quantity in whole bytes, such as 16Gi`,
		},
		"NodeDefaults": {
			"A default that no node can have is found before a pool needs it.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.NodeDefaults.Memory = "8190Mi" },
			`spec.nodeDefaults.memory: Invalid value: "8190Mi": vSphere builds multiples of 4 MiB, at least one: use 8Gi`,
		},
		"DefaultDisk": {
			"A default below the template is found before a pool needs it.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.NodeDefaults.Disk = "10Gi" },
			`spec.nodeDefaults.disk: Invalid value: "10Gi": the template's disk is larger, and vSphere only grows it: use at least 20Gi`,
		},
		"Several": {
			"Everything is said at once.",
			func(s *v1alpha1.VsphereBlueprintSpec) { s.SSHUser, s.Networks = "", nil },
			`[spec.sshUser: Required value: name the user that Rancher logs in with, such as rancher, spec.networks: Required value: a node needs at least one network]`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Open(blueprint(t, spec(tc.change)))
			if err == nil {
				t.Fatalf("%s\nOpen(...): want an error", tc.reason)
			}
			if got, want := err.Error(), "cannot use the VsphereBlueprint fra1: "+tc.want; got != want {
				t.Errorf("%s\nOpen(...):\ngot  %s\nwant %s", tc.reason, got, want)
			}
		})
	}
}

func TestNode(t *testing.T) {
	path := field.NewPath("spec", "pools").Index(0)
	same := func(r ledger.Resources) strategies.Node { return strategies.Node{Size: r, Footprint: r} }
	cases := map[string]struct {
		reason   string
		defaults v1alpha1.NodeDefaults
		pool     v1alpha1.Pool
		want     strategies.Node
		errs     field.ErrorList
	}{
		"Own": {
			reason:   "What the pool says wins, and costs what it says.",
			defaults: v1alpha1.NodeDefaults{CPU: "16", Memory: "64Gi", Disk: "500Gi"},
			pool:     v1alpha1.Pool{CPU: "2", Memory: "4100Mi", Disk: "50001Mi"},
			want:     same(ledger.Resources{2000, 4100 * mib, 50001 * mib, 1}),
		},
		"Blueprint": {
			reason:   "The blueprint's sizes are next, each on its own.",
			defaults: v1alpha1.NodeDefaults{Memory: "16Gi", Disk: "60Gi"},
			pool:     v1alpha1.Pool{CPU: "1"},
			want:     same(ledger.Resources{1000, 16 * gib, 60 * gib, 1}),
		},
		"Embedded": {
			reason: "Nobody said anything: a disk is as large as the template's.",
			want:   same(ledger.Resources{4000, 8 * gib, 20 * gib, 1}),
		},
		"TemplateDisk": {
			reason: "A disk as large as the template's is built.",
			pool:   v1alpha1.Pool{Disk: "20480Mi"},
			want:   same(ledger.Resources{4000, 8 * gib, 20 * gib, 1}),
		},
		"BelowTemplate": {
			reason: "The driver would leave the disk as large as the template's, and the quota would not know.",
			pool:   v1alpha1.Pool{Disk: "20479Mi"},
			errs: field.ErrorList{field.Invalid(path.Child("disk"), "20479Mi",
				"the template's disk is larger, and vSphere only grows it: use at least 20Gi")},
		},
		"NotWhole": {
			reason: "Each refusal proposes the next size.",
			pool:   v1alpha1.Pool{CPU: "2500m", Memory: "8G", Disk: "40G"},
			errs: field.ErrorList{
				field.Invalid(path.Child("cpu"), "2500m", "vSphere builds whole vCPUs, at least one: use 3"),
				field.Invalid(path.Child("memory"), "8G", "vSphere builds multiples of 4 MiB, at least one: use 7632Mi"),
				field.Invalid(path.Child("disk"), "40G", "vSphere builds whole MiB, at least one: use 38147Mi"),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(s *v1alpha1.VsphereBlueprintSpec) { s.NodeDefaults = tc.defaults })
			got, errs := s.Node(path, tc.pool)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nNode(...): -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.errs, errs); diff != "" {
				t.Errorf("%s\nNode(...): -want errors, +got errors:\n%s", tc.reason, diff)
			}
		})
	}
}
