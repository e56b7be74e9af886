package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwsBlueprint holds the tech specs of an AWS region.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=abp,categories=rig
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="VPC",type=string,JSONPath=`.spec.vpcID`
// +kubebuilder:printcolumn:name="AMI",type=string,JSONPath=`.spec.ami`
type AwsBlueprint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AwsBlueprintSpec `json:"spec"`
	// +optional
	Status BlueprintStatus `json:"status,omitempty"`
}

// AwsBlueprintSpec says how nodes are built on EC2.
type AwsBlueprintSpec struct {
	// Region such as eu-central-1.
	// +kubebuilder:validation:Pattern=`^[a-z]{2}(-[a-z]+)+-[0-9]$`
	// +kubebuilder:validation:MaxLength=32
	Region string `json:"region"`
	// VPCID is the network of the nodes.
	// +kubebuilder:validation:Pattern=`^vpc-[0-9a-f]+$`
	// +kubebuilder:validation:MaxLength=32
	VPCID string `json:"vpcID"`
	// Zones over which the nodes of a pool are spread. They cannot be changed: nodes would move between them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="zones are immutable, since nodes would move between them: create another AwsBlueprint"
	// +listType=map
	// +listMapKey=name
	Zones []AwsZone `json:"zones"`
	// AMI of the nodes, an image of the region. Another one replaces every node.
	// +kubebuilder:validation:Pattern=`^ami-[0-9a-f]+$`
	// +kubebuilder:validation:MaxLength=32
	AMI string `json:"ami"`
	// AMIDisk is the size of the image's root disk, in bytes. EC2 refuses a smaller one, and a pool that does not say its
	// disk has this one.
	AMIDisk Quantity `json:"amiDisk"`
	// SSHUser of the image.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	SSHUser string `json:"sshUser"`
	// InstanceTypes that nodes may have. A pool gets the first one that is large enough, ordered by cpu, memory and name.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	InstanceTypes []AwsInstanceType `json:"instanceTypes"`
	// VolumeType of the root disks. gp3 when left out.
	// +kubebuilder:validation:Enum=gp2;gp3
	// +optional
	VolumeType string `json:"volumeType,omitempty"`
	// EncryptVolumes encrypts the root disks with the key of the account.
	// +optional
	EncryptVolumes bool `json:"encryptVolumes,omitempty"`
	// PrivateAddressOnly gives the nodes no public address. Rancher then reaches them by their private one.
	// +optional
	PrivateAddressOnly bool `json:"privateAddressOnly,omitempty"`
	// HTTPTokens says whether the instance metadata service asks for a token. The image decides when left out.
	// +kubebuilder:validation:Enum=optional;required
	// +optional
	HTTPTokens string `json:"httpTokens,omitempty"`
	// SecurityGroup of the nodes.
	SecurityGroup AwsSecurityGroup `json:"securityGroup"`
	// InstanceProfiles give the nodes their rights at AWS. They have none when it is left out.
	// +optional
	InstanceProfiles AwsInstanceProfiles `json:"instanceProfiles,omitempty"`
	// CloudProvider gives the clusters AWS's cloud controller manager. They have none when it is left out.
	// +optional
	CloudProvider *AwsCloudProvider `json:"cloudProvider,omitempty"`
	// CloudInit is cloud-config YAML for the nodes. It is no place for secrets.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	CloudInit string `json:"cloudInit,omitempty"`
	// NodeDefaults are the sizes of pools that do not say theirs.
	// +optional
	NodeDefaults NodeDefaults `json:"nodeDefaults,omitempty"`
}

// AwsZone is an availability zone with the subnet of its nodes.
type AwsZone struct {
	// Name is the letter of the zone in its region, such as a.
	// +kubebuilder:validation:Pattern=`^[a-z]$`
	Name string `json:"name"`
	// SubnetID of a subnet of the VPC in that zone.
	// +kubebuilder:validation:Pattern=`^subnet-[0-9a-f]+$`
	// +kubebuilder:validation:MaxLength=32
	SubnetID string `json:"subnetID"`
}

// AwsInstanceType is an instance type and what it has.
type AwsInstanceType struct {
	// Name such as m6i.xlarge.
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]+\.[a-z0-9-]+$`
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name"`
	// CPU in virtual cpus.
	CPU Quantity `json:"cpu"`
	// Memory in bytes.
	Memory Quantity `json:"memory"`
}

// AwsSecurityGroup says which network traffic reaches the nodes.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) != (has(self.manage) && self.manage)",message="say either name or manage"
// +kubebuilder:validation:XValidation:rule="!has(self.rules) || (has(self.manage) && self.manage)",message="rules need manage"
type AwsSecurityGroup struct {
	// Name of a security group of the VPC that exists. Nothing is added to it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`
	// Manage makes a security group for each cluster. Its nodes reach each other on the ports of RKE2 and of its default
	// network plugin, Canal, and everything outside.
	// +optional
	Manage bool `json:"manage,omitempty"`
	// Rules let in more: SSH from the Rancher server, which the node driver needs, traffic to the workloads, or the ports of
	// another network plugin.
	// +kubebuilder:validation:MaxItems=40
	// +listType=atomic
	// +optional
	Rules []AwsSecurityGroupRule `json:"rules,omitempty"`
}

// AwsSecurityGroupRule lets traffic in.
type AwsSecurityGroupRule struct {
	// Protocol of the traffic.
	// +kubebuilder:validation:Enum=tcp;udp
	Protocol string `json:"protocol"`
	// FromPort is the first port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	FromPort int64 `json:"fromPort"`
	// ToPort is the last port. The first one when left out.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	ToPort int64 `json:"toPort,omitempty"`
	// CIDR of the IPv4 addresses that it comes from. The other nodes of the cluster when left out.
	// +kubebuilder:validation:Pattern=`^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$`
	// +optional
	CIDR string `json:"cidr,omitempty"`
}

// AwsInstanceProfiles are IAM instance profiles of nodes.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.manage) && self.manage && (has(self.controlPlane) || has(self.worker)))",message="say either manage or controlPlane and worker"
type AwsInstanceProfiles struct {
	// Manage makes two instance profiles for each cluster, with the rights that AWS's cloud controller manager needs.
	// +optional
	Manage bool `json:"manage,omitempty"`
	// ControlPlane is the name of the instance profile of nodes with the role control-plane.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ControlPlane string `json:"controlPlane,omitempty"`
	// Worker is the name of the instance profile of the others.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Worker string `json:"worker,omitempty"`
}

// AwsCloudProvider says where the chart aws-cloud-controller-manager comes from.
type AwsCloudProvider struct {
	// Repository of the chart, which the clusters can reach.
	// +kubebuilder:validation:Pattern=`^https://.+`
	// +kubebuilder:validation:MaxLength=253
	Repository string `json:"repository"`
	// Version of the chart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
}
