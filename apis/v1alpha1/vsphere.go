package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VsphereBlueprint holds the tech specs of a vSphere datacenter.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=vbp,categories=rig
// +kubebuilder:printcolumn:name="Server",type=string,JSONPath=`.spec.server`
// +kubebuilder:printcolumn:name="Datacenter",type=string,JSONPath=`.spec.datacenter`
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template`
type VsphereBlueprint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec VsphereBlueprintSpec `json:"spec"`
	// +optional
	Status BlueprintStatus `json:"status,omitempty"`
}

// VsphereBlueprintSpec says how nodes are built on vSphere.
//
// +kubebuilder:validation:XValidation:rule="has(self.datastore) != has(self.datastoreCluster)",message="say either datastore or datastoreCluster"
type VsphereBlueprintSpec struct {
	// Server is the host name or address of the vCenter.
	// +kubebuilder:validation:Pattern=`^[^/\s]+$`
	// +kubebuilder:validation:MaxLength=253
	Server string `json:"server"`
	// Datacenter as an inventory path, such as /fra1.
	// +kubebuilder:validation:MinLength=1
	Datacenter string `json:"datacenter"`
	// Datastore as an inventory path.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Datastore string `json:"datastore,omitempty"`
	// DatastoreCluster as an inventory path.
	// +kubebuilder:validation:MinLength=1
	// +optional
	DatastoreCluster string `json:"datastoreCluster,omitempty"`
	// Networks as inventory paths. The first gives the nodes their address.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Networks []string `json:"networks"`
	// Template that the nodes are cloned from, as an inventory path.
	// +kubebuilder:validation:MinLength=1
	Template string `json:"template"`
	// TemplateDisk is the size of the template's first disk, in bytes. vSphere only grows it: a pool with a smaller disk
	// is refused.
	TemplateDisk Quantity `json:"templateDisk"`
	// Folder of the virtual machines, as an inventory path. It must exist.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Folder string `json:"folder,omitempty"`
	// ResourcePool of the virtual machines, as an inventory path.
	// +kubebuilder:validation:MinLength=1
	ResourcePool string `json:"resourcePool"`
	// SSHUser of the template.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	SSHUser string `json:"sshUser"`
	// CloudInit is cloud-config YAML that is merged over the default. Maps merge, lists append, everything else replaces.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	CloudInit string `json:"cloudInit,omitempty"`
	// NodeDefaults are the sizes of pools that do not say theirs.
	// +optional
	NodeDefaults NodeDefaults `json:"nodeDefaults,omitempty"`
}
