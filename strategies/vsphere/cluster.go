package vsphere

import (
	"path"
	"strconv"

	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/size"
)

// keyValues is the key of the Secret with the vCenter account.
const keyValues = "values.yaml"

// Cluster returns a VmwarevsphereConfig of each pool, the wiring of the cloud provider, and the folder and the resource
// pool that the blueprint wants for each cluster. Sizes are those that the pools were admitted with.
func (s *strategy) Cluster(scope strategies.Scope) (strategies.Output, error) {
	pools := map[string]any{}
	for _, pool := range scope.Pools {
		node, err := units().Admitted(pool)
		if err != nil {
			return strategies.Output{}, err
		}
		pools[pool.Name] = map[string]any{"machineConfig": s.machineConfig(scope.Cluster, node)}
	}
	resources, err := s.managed(scope)
	if err != nil {
		return strategies.Output{}, err
	}
	values := map[string]any{"machineConfigKind": "VmwarevsphereConfig", "pools": pools}
	out := strategies.Output{Values: values, Resources: resources}
	if provider := s.spec.CloudProvider; provider != nil {
		storageClass := map[string]any{"isDefault": true}
		setString(storageClass, "datastoreURL", provider.StorageClass.DatastoreURL)
		setString(storageClass, "storagePolicyName", provider.StorageClass.StoragePolicyName)
		values["cloudProvider"] = map[string]any{"vsphere": map[string]any{
			"host":         s.spec.Server,
			"insecureFlag": provider.InsecureFlag,
			"datacenters":  []any{s.spec.Datacenter},
			"storageClass": storageClass,
		}}
		out.SecretValues = []strategies.SecretValue{{Secret: provider.ValuesSecretRef, Key: keyValues}}
	}
	return out, nil
}

// machineConfig returns the fields of a VmwarevsphereConfig (rke-machine-config.cattle.io/v1), whose integers are strings:
// vCPUs and MiB. The networks are a list.
func (s *strategy) machineConfig(cluster string, node ledger.Resources) map[string]any {
	networks := make([]any, len(s.spec.Networks))
	for i, network := range s.spec.Networks {
		networks[i] = network
	}
	config := map[string]any{
		"cpuCount":     strconv.FormatInt(node[ledger.CPU]/size.Millicpus, 10),
		"memorySize":   strconv.FormatInt(node[ledger.Memory]/size.Mebibyte, 10),
		"diskSize":     strconv.FormatInt(node[ledger.Disk]/size.Mebibyte, 10),
		"creationType": "template",
		"cloneFrom":    s.spec.Template,
		"datacenter":   s.spec.Datacenter,
		"network":      networks,
		"pool":         s.spec.ResourcePool.Path,
		"sshUser":      s.spec.SSHUser,
		"cloudConfig":  s.userData,
		// The CSI driver finds a volume by the identity of its disk.
		"cfgparam": []any{"disk.enableUUID=TRUE"},
	}
	if s.spec.ContentLibrary != "" {
		config["creationType"], config["contentLibrary"] = "library", s.spec.ContentLibrary
	}
	if s.spec.ResourcePool.Manage {
		config["pool"] = path.Join(s.spec.ResourcePool.Path, cluster)
	}
	setString(config, "datastore", s.spec.Datastore)
	setString(config, "datastoreCluster", s.spec.DatastoreCluster)
	setString(config, "folder", s.folder(cluster))
	return config
}

// folder of the virtual machines of a cluster, below the datacenter's VM folder.
func (s *strategy) folder(cluster string) string {
	if s.spec.Folder.Manage {
		return path.Join(s.spec.Folder.Path, cluster)
	}
	return s.spec.Folder.Path
}

func setString(in map[string]any, key, value string) {
	if value != "" {
		in[key] = value
	}
}
