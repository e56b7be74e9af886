package harvester

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/size"
)

// Cluster returns a HarvesterConfig of each pool, the wiring of the cloud provider, and the identity with which it
// reaches Harvester. Sizes are those that the pools were admitted with.
func (s *strategy) Cluster(scope strategies.Scope) (strategies.Output, error) {
	pools := map[string]any{}
	for _, pool := range scope.Pools {
		node, err := units().Admitted(pool)
		if err != nil {
			return strategies.Output{}, err
		}
		config, err := s.machineConfig(node)
		if err != nil {
			return strategies.Output{}, err
		}
		pools[pool.Name] = map[string]any{"machineConfig": config}
	}
	out, err := s.identity(scope)
	if err != nil {
		return strategies.Output{}, err
	}
	out.Values = map[string]any{
		"machineConfigKind": "HarvesterConfig",
		"pools":             pools,
		"cloudProvider": map[string]any{
			"harvester": map[string]any{"server": s.spec.Endpoint, "namespace": s.spec.VMNamespace},
		},
	}
	if s.spec.StorageClassName != "" {
		// The CSI driver's chart already makes the default StorageClass, harvester. A second one beside it would leave a
		// cluster with two defaults.
		out.Values["cluster"] = map[string]any{"chartValues": map[string]any{
			"harvester-csi-driver": map[string]any{"hostStorageClass": s.spec.StorageClassName},
		}}
	}
	return out, nil
}

// machineConfig returns the fields of a HarvesterConfig (rke-machine-config.cattle.io/v1), whose integers are strings:
// vCPUs and GiB.
func (s *strategy) machineConfig(node ledger.Resources) (map[string]any, error) {
	disks, err := json.Marshal(map[string][]disk{
		"disks": {{ImageName: s.spec.Image, Size: node[ledger.Disk] / size.Gibibyte, BootOrder: 1, Bus: "virtio", Type: "disk"}},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot encode the disks: %w", err)
	}
	nics := make([]nic, len(s.spec.Networks))
	for i, network := range s.spec.Networks {
		nics[i] = nic{NetworkName: network, Model: "virtio", Type: "bridge"}
	}
	interfaces, err := json.Marshal(map[string][]nic{"interfaces": nics})
	if err != nil {
		return nil, fmt.Errorf("cannot encode the interfaces: %w", err)
	}
	config := map[string]any{
		"cpuCount":    strconv.FormatInt(node[ledger.CPU]/size.Millicpus, 10),
		"memorySize":  strconv.FormatInt(node[ledger.Memory]/size.Gibibyte, 10),
		"diskInfo":    string(disks),
		"networkInfo": string(interfaces),
		"vmNamespace": s.spec.VMNamespace,
		"sshUser":     s.spec.SSHUser,
		"userData":    s.userData,
	}
	if s.spec.EnableEFI {
		config["enableEfi"] = true
	}
	if s.spec.EnableSecureBoot {
		config["enableSecureBoot"] = true
	}
	if s.spec.CPUModel != "" {
		config["cpuModel"] = s.spec.CPUModel
	}
	return config, nil
}

// disk of a virtual machine, as the driver reads it. Its size is in GiB.
type disk struct {
	ImageName string `json:"imageName"`
	Size      int64  `json:"size"`
	BootOrder int    `json:"bootOrder"`
	Bus       string `json:"bus"`
	Type      string `json:"type"`
}

// nic of a virtual machine, as the driver reads it.
type nic struct {
	NetworkName string `json:"networkName"`
	Model       string `json:"model"`
	Type        string `json:"type"`
}
