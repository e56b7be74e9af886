package aws

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/size"
)

// Cluster returns an Amazonec2Config of each part of a pool, where the cloud controller manager comes from, and the
// security group and the instance profiles that the blueprint wants for each cluster. Instance types and disks are those
// that the pools were admitted with.
func (s *strategy) Cluster(scope strategies.Scope) (strategies.Output, error) {
	pools := map[string]any{}
	for _, pool := range scope.Pools {
		node, err := units().Admitted(pool)
		if err != nil {
			return strategies.Output{}, err
		}
		if pool.Type == "" {
			return strategies.Output{}, field.Required(field.NewPath("status", "quota", "pools").Key(pool.Name).Child("type"),
				"the pool was admitted without an instance type")
		}
		for _, share := range s.shares(scope.Cluster, pool) {
			pools[share.Name] = map[string]any{"machineConfig": s.machineConfig(scope.Cluster, pool, share.zone, node[ledger.Disk])}
		}
	}
	resources, err := s.managed(scope)
	if err != nil {
		return strategies.Output{}, err
	}
	values := map[string]any{"machineConfigKind": "Amazonec2Config", "pools": pools}
	if p := s.spec.CloudProvider; p != nil {
		values["cloudProvider"] = map[string]any{"aws": map[string]any{"repository": p.Repository, "version": p.Version}}
	}
	return strategies.Output{Values: values, Resources: resources}, nil
}

// machineConfig returns the fields of an Amazonec2Config (rke-machine-config.cattle.io/v1), whose integers are strings:
// the root disk in GiB. Security groups go by name.
func (s *strategy) machineConfig(cluster string, pool v1alpha1.AdmittedPool, zone v1alpha1.AwsZone, disk int64) map[string]any {
	config := map[string]any{
		"region":                s.spec.Region,
		"zone":                  zone.Name,
		"vpcId":                 s.spec.VPCID,
		"subnetId":              zone.SubnetID,
		"ami":                   s.spec.AMI,
		"instanceType":          pool.Type,
		"rootSize":              strconv.FormatInt(disk/size.Gibibyte, 10),
		"volumeType":            s.spec.VolumeType,
		"sshUser":               s.spec.SSHUser,
		"securityGroup":         []any{s.securityGroup(cluster)},
		"securityGroupReadonly": true,
		// By this tag the cloud controller manager knows what belongs to the cluster.
		"tags": clusterTag(cluster) + ",owned",
	}
	profile := s.workerProfile(cluster)
	if slices.Contains(pool.Roles, v1alpha1.RoleControlPlane) {
		profile = s.controlPlaneProfile(cluster)
	}
	for key, value := range map[string]string{"iamInstanceProfile": profile, "httpTokens": s.spec.HTTPTokens, "userdata": s.userData} {
		if value != "" {
			config[key] = value
		}
	}
	for key, set := range map[string]bool{"encryptEbsVolume": s.spec.EncryptVolumes, "privateAddressOnly": s.spec.PrivateAddressOnly} {
		if set {
			config[key] = true
		}
	}
	return config
}

func clusterTag(cluster string) string { return "kubernetes.io/cluster/" + cluster }

// securityGroup of a cluster's nodes. The names of groups must not start with sg-, those of clusters may.
func (s *strategy) securityGroup(cluster string) string {
	if s.spec.SecurityGroup.Manage {
		return "rig-" + cluster
	}
	return s.spec.SecurityGroup.Name
}

func (s *strategy) controlPlaneProfile(cluster string) string {
	if s.spec.InstanceProfiles.Manage {
		return profileName(cluster, controlPlane)
	}
	return s.spec.InstanceProfiles.ControlPlane
}

func (s *strategy) workerProfile(cluster string) string {
	if s.spec.InstanceProfiles.Manage {
		return profileName(cluster, worker)
	}
	return s.spec.InstanceProfiles.Worker
}
