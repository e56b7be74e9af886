package vsphere

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/strategytest"
)

func scope(pools ...v1alpha1.AdmittedPool) strategies.Scope {
	return strategies.Scope{
		Cluster: "payments-x7k2p",
		Labels:  map[string]string{v1alpha1.LabelCluster: "payments-x7k2p", v1alpha1.LabelInfraBlueprint: "fra1"},
		Infra: v1alpha1.InfraBlueprintSpec{Credentials: v1alpha1.Credentials{
			InfrastructureProviderConfigRef: &v1alpha1.ProviderConfigReference{Name: "vsphere-fra1"},
		}},
		Pools:           pools,
		SecretNamespace: "crossplane-system",
	}
}

func pool(name string, count int64, cpu, memory, disk v1alpha1.Quantity) v1alpha1.AdmittedPool {
	size := v1alpha1.NodeResources{CPU: cpu, Memory: memory, Disk: disk}
	return v1alpha1.AdmittedPool{
		Pool: v1alpha1.Pool{Name: name, Count: count, Roles: []v1alpha1.Role{v1alpha1.RoleWorker}}, Size: size, Node: size,
	}
}

// machine is the machine config of a minimal blueprint, with changes.
func machine(cpu, memory, disk string, changes map[string]any) map[string]any {
	config := map[string]any{
		"cpuCount":     cpu,
		"memorySize":   memory,
		"diskSize":     disk,
		"creationType": "template",
		"cloneFrom":    "/fra1/vm/templates/ubuntu-2404",
		"datacenter":   "/fra1",
		"datastore":    "/fra1/datastore/ds1",
		"network":      []any{"/fra1/network/vlan-10"},
		"pool":         "/fra1/host/c1/Resources/rig",
		"sshUser":      "rancher",
		"cfgparam":     []any{"disk.enableUUID=TRUE"},
		"cloudConfig":  "#cloud-config\npackage_update: true\npackages:\n- open-vm-tools\n",
	}
	maps.Copy(config, changes)
	maps.DeleteFunc(config, func(_ string, v any) bool { return v == nil })
	return map[string]any{"machineConfig": config}
}

func output(pools map[string]any) strategies.Output {
	return strategies.Output{
		Values:    map[string]any{"machineConfigKind": "VmwarevsphereConfig", "pools": pools},
		Resources: map[string]strategies.Resource{},
	}
}

func resource(suffix, apiVersion, kind string, parameters map[string]any) strategies.Resource {
	return strategies.Resource{
		"apiVersion": apiVersion,
		"kind":       kind,
		"metadata": map[string]any{
			"name":   "payments-x7k2p-" + suffix,
			"labels": map[string]any{"rig-gateway.io/cluster": "payments-x7k2p", "rig-gateway.io/infra-blueprint": "fra1"},
		},
		"spec": map[string]any{"providerConfigRef": map[string]any{"name": "vsphere-fra1"}, "forProvider": parameters},
	}
}

func TestCluster(t *testing.T) {
	all := pool("all", 3, "4", "8Gi", "40Gi")
	one := func(changes map[string]any) strategies.Output {
		return output(map[string]any{"all": machine("4", "8192", "40960", changes)})
	}
	withProvider := one(nil)
	withProvider.Values["cloudProvider"] = map[string]any{"vsphere": map[string]any{
		"host": "vcenter.example.org", "insecureFlag": true, "datacenters": []any{"/fra1"},
		"storageClass": map[string]any{"isDefault": true, "datastoreURL": "ds:///vmfs/volumes/5f3c/", "storagePolicyName": "gold"},
	}}
	withProvider.SecretValues = []strategies.SecretValue{{
		Secret: v1alpha1.SecretReference{Name: "vcenter-fra1", Namespace: "crossplane-system"}, Key: "values.yaml",
	}}
	managed := output(map[string]any{
		"control": machine("2", "4096", "20480", map[string]any{"folder": "rig/prod/payments-x7k2p", "pool": "/fra1/host/c1/Resources/rig/payments-x7k2p"}),
		"workers": machine("8", "16388", "102400", map[string]any{"folder": "rig/prod/payments-x7k2p", "pool": "/fra1/host/c1/Resources/rig/payments-x7k2p"}),
	})
	managed.Resources = map[string]strategies.Resource{
		"folder": resource("folder", "inventory.crossplane.io/v1alpha1", "VSphereFolder", map[string]any{
			"path": "rig/prod/payments-x7k2p", "type": "vm", "datacenterId": "datacenter-2",
		}),
		// (3+1) × 2 and (2+1) × 8 vCPUs of 2599 MHz; 4 × 4096 and 3 × 16388 MB.
		"resourcepool": resource("resourcepool", "hostandclustermanagement.crossplane.io/v1alpha1", "VSphereResourcePool", map[string]any{
			"name": "payments-x7k2p", "parentResourcePoolId": "resgroup-8",
			"cpuLimit": int64(32 * 2599), "memoryLimit": int64(4*4096 + 3*16388),
		}),
	}
	folderOnly := one(map[string]any{"folder": "payments-x7k2p"})
	folderOnly.Resources = map[string]strategies.Resource{
		"folder": resource("folder", "inventory.crossplane.io/v1alpha1", "VSphereFolder", map[string]any{
			"path": "payments-x7k2p", "type": "vm", "datacenterId": "datacenter-2",
		}),
	}
	cases := map[string]struct {
		reason string
		change change
		pools  []v1alpha1.AdmittedPool
		want   strategies.Output
	}{
		"OnePool": {
			reason: "vCPUs and MiB, whole, as strings; the network is a list.",
			pools:  []v1alpha1.AdmittedPool{all},
			want:   one(nil),
		},
		"Sizes": {
			reason: "Each pool has its own sizes, and a quantity counts by its value.",
			pools:  []v1alpha1.AdmittedPool{pool("large", 1, "16", "64Gi", "1Ti"), pool("small", 1, "2000m", "4100Mi", "21474836480")},
			want: output(map[string]any{
				"large": machine("16", "65536", "1048576", nil),
				"small": machine("2", "4100", "20480", nil),
			}),
		},
		"Admitted": {
			reason: "Sizes are those of the admission, whatever the pool and the blueprint say today.",
			change: func(s *v1alpha1.VsphereBlueprintSpec) {
				s.TemplateDisk, s.NodeDefaults = "100Gi", v1alpha1.NodeDefaults{CPU: "32", Memory: "256Gi", Disk: "1Ti"}
			},
			pools: []v1alpha1.AdmittedPool{all},
			want:  one(nil),
		},
		"Library": {
			reason: "A template may be an item of a content library.",
			change: func(s *v1alpha1.VsphereBlueprintSpec) { s.Template, s.ContentLibrary = "ubuntu-2404", "images" },
			pools:  []v1alpha1.AdmittedPool{all},
			want:   one(map[string]any{"creationType": "library", "cloneFrom": "ubuntu-2404", "contentLibrary": "images"}),
		},
		"Places": {
			reason: "What is set is passed on, and networks keep their order.",
			change: func(s *v1alpha1.VsphereBlueprintSpec) {
				s.Datastore, s.DatastoreCluster, s.Folder.Path = "", "/fra1/datastore/dsc1", "rig/prod"
				s.Networks = []string{"/fra1/network/b", "/fra1/network/a"}
			},
			pools: []v1alpha1.AdmittedPool{all},
			want: one(map[string]any{
				"datastore": nil, "datastoreCluster": "/fra1/datastore/dsc1", "folder": "rig/prod",
				"network": []any{"/fra1/network/b", "/fra1/network/a"},
			}),
		},
		"CloudInit": {
			reason: "User data is merged over the default.",
			change: func(s *v1alpha1.VsphereBlueprintSpec) {
				s.CloudInit = "packages: [nfs-common]\nusers: [default]"
			},
			pools: []v1alpha1.AdmittedPool{all},
			want: one(map[string]any{
				"cloudConfig": "#cloud-config\npackage_update: true\npackages:\n- open-vm-tools\n- nfs-common\nusers:\n- default\n",
			}),
		},
		"CloudProvider": {
			reason: "The account comes from the Secret, as YAML: a password may hold what --set would take apart.",
			change: func(s *v1alpha1.VsphereBlueprintSpec) {
				s.CloudProvider = &v1alpha1.VsphereCloudProvider{
					ValuesSecretRef: v1alpha1.SecretReference{Name: "vcenter-fra1", Namespace: "crossplane-system"},
					InsecureFlag:    true,
					StorageClass:    v1alpha1.VsphereStorageClass{DatastoreURL: "ds:///vmfs/volumes/5f3c/", StoragePolicyName: "gold"},
				}
			},
			pools: []v1alpha1.AdmittedPool{all},
			want:  withProvider,
		},
		"Managed": {
			reason: "Folder and resource pool of the cluster's name; the limits leave room for one more node of each pool.",
			change: func(s *v1alpha1.VsphereBlueprintSpec) {
				s.Folder = v1alpha1.VsphereFolder{Path: "rig/prod", Manage: true, DatacenterID: "datacenter-2"}
				s.ResourcePool.Manage, s.ResourcePool.ParentID, s.ResourcePool.MHzPerCPU = true, "resgroup-8", 2599
			},
			pools: []v1alpha1.AdmittedPool{pool("control", 3, "2", "4Gi", "20Gi"), pool("workers", 2, "8", "16388Mi", "100Gi")},
			want:  managed,
		},
		"ManagedFolderOnly": {
			reason: "Each is managed on its own; without a path the folder is below the VM folder itself.",
			change: func(s *v1alpha1.VsphereBlueprintSpec) {
				s.Folder = v1alpha1.VsphereFolder{Manage: true, DatacenterID: "datacenter-2"}
			},
			pools: []v1alpha1.AdmittedPool{all},
			want:  folderOnly,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			changes := []change{}
			if tc.change != nil {
				changes = append(changes, tc.change)
			}
			got, err := open(t, changes...).Cluster(scope(tc.pools...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nCluster(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// A limit is rounded up once, at the end.
func TestLimitsRoundUp(t *testing.T) {
	s := &strategy{spec: spec(func(s *v1alpha1.VsphereBlueprintSpec) { s.ResourcePool.MHzPerCPU = 2599 })}
	got, err := s.limits([]v1alpha1.AdmittedPool{{
		Pool: v1alpha1.Pool{Name: "a", Count: 2}, Node: v1alpha1.NodeResources{CPU: "1001m", Memory: "1048577", Disk: "0"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	// 3 × 1.001 × 2599 = 7804.797, and 3 × (1 MB and a byte).
	if diff := cmp.Diff(map[string]any{"cpuLimit": int64(7805), "memoryLimit": int64(4)}, got); diff != "" {
		t.Errorf("limits(...): -want, +got:\n%s", diff)
	}
}

func TestClusterRefusals(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*strategies.Scope)
		want   string
	}{
		"NoProviderConfig": {
			"Nothing can be made on vSphere.",
			func(s *strategies.Scope) { s.Infra.Credentials.InfrastructureProviderConfigRef = nil },
			"spec.credentials.infrastructureProviderConfigRef: Required value: name the ProviderConfig of provider-vsphere that makes folders and resource pools",
		},
		"EmptyProviderConfig": {
			"A reference to nothing is none.",
			func(s *strategies.Scope) { s.Infra.Credentials.InfrastructureProviderConfigRef.Name = "" },
			"spec.credentials.infrastructureProviderConfigRef: Required value: name the ProviderConfig of provider-vsphere that makes folders and resource pools",
		},
		"NotWhole": {
			"Pools admitted with another provider are not rounded.",
			func(s *strategies.Scope) {
				s.Pools = []v1alpha1.AdmittedPool{pool("a", 1, "1", "4001Mi", "40Gi")}
			},
			`cannot build pool a: status.quota.pools[a].size.memory: Invalid value: "4001Mi": vSphere builds multiples of 4 MiB, at least one: use 4004Mi`,
		},
		"NoFootprint": {
			"Without a footprint there is no limit.",
			func(s *strategies.Scope) { s.Pools[0].Node.Memory = "" },
			`cannot limit the resource pool: status.quota.pools[all].node.memory: Required value: must be a Kubernetes quantity in whole bytes, such as 16Gi`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := scope(pool("all", 3, "4", "8Gi", "40Gi"))
			tc.change(&in)
			got, err := open(t, everything).Cluster(in)
			if err == nil || err.Error() != tc.want {
				t.Errorf("%s\nCluster(...): got error %v, want %s", tc.reason, err, tc.want)
			}
			if diff := cmp.Diff(strategies.Output{}, got); diff != "" {
				t.Errorf("%s\nCluster(...): an error beside an output:\n%s", tc.reason, diff)
			}
		})
	}
}

// everything is set.
func everything(s *v1alpha1.VsphereBlueprintSpec) {
	s.Folder = v1alpha1.VsphereFolder{Path: "rig", Manage: true, DatacenterID: "datacenter-2"}
	s.ResourcePool.Manage, s.ResourcePool.ParentID, s.ResourcePool.MHzPerCPU = true, "resgroup-8", 2600
	s.CloudProvider = &v1alpha1.VsphereCloudProvider{ValuesSecretRef: v1alpha1.SecretReference{Name: "a", Namespace: "b"}}
}

func TestClusterPure(t *testing.T) {
	raw := blueprint(t, spec(everything))
	strategytest.Pure(t, Open, raw, scope(pool("a", 3, "4", "8Gi", "40Gi"), pool("b", 1, "8", "16Gi", "80Gi")))
}
