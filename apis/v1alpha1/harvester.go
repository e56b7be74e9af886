package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HarvesterBlueprint holds the tech specs of a Harvester cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=hbp,categories=rig
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpoint`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.vmNamespace`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Provider-Ready",type=string,JSONPath=`.status.conditions[?(@.type=="ProviderReady")].status`
type HarvesterBlueprint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HarvesterBlueprintSpec `json:"spec"`
	// +optional
	Status BlueprintStatus `json:"status,omitempty"`
}

// HarvesterBlueprintSpec says how nodes are built on Harvester.
type HarvesterBlueprintSpec struct {
	// Endpoint of the Harvester API that the clusters' cloud provider talks to: https://, the cluster's VIP, port 6443.
	// +kubebuilder:validation:Pattern=`^https://[^/\s]+$`
	// +kubebuilder:validation:MaxLength=253
	Endpoint string `json:"endpoint"`
	// VMNamespace is the Harvester namespace of the virtual machines.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	VMNamespace string `json:"vmNamespace"`
	// Image is a VirtualMachineImage object as namespace/name (its name, not its displayName), such as
	// default/image-x7k2p. A bare name is looked up in vmNamespace.
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=253
	Image string `json:"image"`
	// Networks are NetworkAttachmentDefinitions as namespace/name. The first gives the nodes their address.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	// +listType=atomic
	Networks []string `json:"networks"`
	// StorageClassName is the Harvester StorageClass behind the clusters' default StorageClass, which Harvester's CSI
	// driver makes and calls harvester. It is handed to the driver as hostStorageClass; no second default is made.
	// Harvester's own default when left out. Disks of the nodes follow their image.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
	// ProviderConfigRef names a ProviderConfig of provider-kubernetes that reaches Harvester. With it the function looks up
	// whether the namespace, the image, the networks and the StorageClass are there, and new clusters wait until they are.
	// Nothing is looked up when it is left out.
	// +optional
	ProviderConfigRef *ProviderConfigReference `json:"providerConfigRef,omitempty"`
	// SSHUser of the image.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	SSHUser string `json:"sshUser"`
	// CloudInit is cloud-config YAML that is merged over the default, which installs and starts qemu-guest-agent. Maps
	// merge, lists append, everything else replaces.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	CloudInit string `json:"cloudInit,omitempty"`
	// NodeDefaults are the sizes of pools that do not say theirs.
	// +optional
	NodeDefaults NodeDefaults `json:"nodeDefaults,omitempty"`
	// Overhead says what a virtual machine costs beyond its memory.
	// +optional
	Overhead HarvesterOverhead `json:"overhead,omitempty"`
	// EnableEFI boots the nodes with EFI.
	// +optional
	EnableEFI bool `json:"enableEFI,omitempty"`
	// EnableSecureBoot needs enableEFI.
	// +optional
	EnableSecureBoot bool `json:"enableSecureBoot,omitempty"`
	// CPUModel of the virtual machines. Harvester's default when left out.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	CPUModel string `json:"cpuModel,omitempty"`
}

// NodeDefaults are the sizes of pools that do not say theirs.
type NodeDefaults struct {
	// CPU in virtual cpus.
	// +optional
	CPU Quantity `json:"cpu,omitempty"`
	// Memory in bytes.
	// +optional
	Memory Quantity `json:"memory,omitempty"`
	// Disk in bytes.
	// +optional
	Disk Quantity `json:"disk,omitempty"`
}

// HarvesterOverhead mirrors the Harvester settings that decide what a virtual machine costs.
type HarvesterOverhead struct {
	// MemoryRatio is Harvester's setting additional-guest-memory-overhead-ratio: "0" or "1" to "10", with up to three
	// decimals. 1.5 when left out, as in Harvester.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(0|10(\.0{1,3})?|[1-9](\.[0-9]{1,3})?)$`
	// +optional
	MemoryRatio Quantity `json:"memoryRatio,omitempty"`
	// MemoryOvercommit is the memory part of Harvester's setting overcommit-config, in percent. 150 when left out.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MemoryOvercommit int64 `json:"memoryOvercommit,omitempty"`
	// Architecture of the Harvester hosts.
	// +kubebuilder:validation:Enum=amd64;arm64
	// +optional
	Architecture string `json:"architecture,omitempty"`
}

// BlueprintStatus is what the function knows of a provider blueprint.
type BlueprintStatus struct {
	// Conditions of the blueprint.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
