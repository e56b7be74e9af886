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
	// Server is the host name or IPv4 address of the vCenter, without scheme and port.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:MaxLength=253
	Server string `json:"server"`
	// Datacenter as an inventory path, such as /fra1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Datacenter string `json:"datacenter"`
	// Datastore as an inventory path.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Datastore string `json:"datastore,omitempty"`
	// DatastoreCluster as an inventory path.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	DatastoreCluster string `json:"datastoreCluster,omitempty"`
	// Networks as inventory paths. The first gives the nodes their address.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +listType=atomic
	Networks []string `json:"networks"`
	// Template that the nodes are cloned from: an inventory path, or the name of an item of contentLibrary. It needs
	// cloud-init and open-vm-tools, and has one disk.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Template string `json:"template"`
	// ContentLibrary that has the template, by name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ContentLibrary string `json:"contentLibrary,omitempty"`
	// TemplateDisk is the size of the template's disk, in bytes. vSphere only grows it: a pool with a smaller disk is
	// refused, and one that does not say its disk has this one.
	TemplateDisk Quantity `json:"templateDisk"`
	// Folder of the virtual machines. The datacenter's VM folder when left out.
	// +optional
	Folder VsphereFolder `json:"folder,omitempty"`
	// ResourcePool of the virtual machines.
	ResourcePool VsphereResourcePool `json:"resourcePool"`
	// SSHUser that is made on the nodes, with which Rancher logs in.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	SSHUser string `json:"sshUser"`
	// CloudInit is cloud-config YAML that is merged over the default, which installs open-vm-tools. Maps merge, lists
	// append, everything else replaces. It is no place for secrets.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	CloudInit string `json:"cloudInit,omitempty"`
	// NodeDefaults are the sizes of pools that do not say theirs.
	// +optional
	NodeDefaults NodeDefaults `json:"nodeDefaults,omitempty"`
	// CloudProvider gives the clusters vSphere's cloud provider and CSI driver. They have none when it is left out.
	// +optional
	CloudProvider *VsphereCloudProvider `json:"cloudProvider,omitempty"`
}

// VsphereFolder says in which folder the virtual machines are.
//
// +kubebuilder:validation:XValidation:rule="!has(self.manage) || !self.manage || has(self.datacenterID)",message="manage needs datacenterID"
type VsphereFolder struct {
	// Path of a folder that exists, below the datacenter's VM folder, such as rig/prod.
	// +kubebuilder:validation:Pattern=`^[^/]+(/[^/]+)*$`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Path string `json:"path,omitempty"`
	// Manage makes a folder for each cluster, below path and with the name of the cluster.
	// +optional
	Manage bool `json:"manage,omitempty"`
	// DatacenterID is the managed object id of the datacenter, such as datacenter-2.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DatacenterID string `json:"datacenterID,omitempty"`
}

// VsphereResourcePool says in which resource pool the virtual machines are.
//
// +kubebuilder:validation:XValidation:rule="!has(self.manage) || !self.manage || (has(self.parentID) && has(self.mhzPerCPU))",message="manage needs parentID and mhzPerCPU"
// +kubebuilder:validation:XValidation:rule="!has(self.grandparentID) || (has(self.parentID) && has(self.mhzPerCPU))",message="grandparentID needs parentID and mhzPerCPU"
type VsphereResourcePool struct {
	// Path of a resource pool that exists, as an inventory path, such as /fra1/host/c1/Resources/rig.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Path string `json:"path"`
	// Manage makes a resource pool for each cluster, below the one at path and with the name of the cluster. Its limits
	// are what the rendered pools take with one more node of each, which is what a pool has while it rolls.
	// +optional
	Manage bool `json:"manage,omitempty"`
	// ParentID is the managed object id of the resource pool at path, such as resgroup-8.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ParentID string `json:"parentID,omitempty"`
	// GrandparentID is the managed object id of the resource pool above the one at path, such as resgroup-2. With it, parentID
	// and mhzPerCPU, the backstop of an InfraBlueprint can limit the one at path. A wrong one would move that pool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	GrandparentID string `json:"grandparentID,omitempty"`
	// MHzPerCPU is what one virtual cpu may use at most: the clock of a core of the hosts, in MHz.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MHzPerCPU int64 `json:"mhzPerCPU,omitempty"`
}

// VsphereCloudProvider says how the clusters reach vSphere.
type VsphereCloudProvider struct {
	// ValuesSecretRef names a Secret on the control plane whose key values.yaml holds the vCenter account, as chart
	// values: cloudProvider.vsphere.username and cloudProvider.vsphere.password.
	ValuesSecretRef SecretReference `json:"valuesSecretRef"`
	// InsecureFlag leaves the vCenter's certificate unchecked.
	// +optional
	InsecureFlag bool `json:"insecureFlag,omitempty"`
	// StorageClass that the CSI driver makes, as the clusters' default.
	// +optional
	StorageClass VsphereStorageClass `json:"storageClass,omitempty"`
}

// VsphereStorageClass says where volumes are kept.
type VsphereStorageClass struct {
	// DatastoreURL such as ds:///vmfs/volumes/5f3c/.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	DatastoreURL string `json:"datastoreURL,omitempty"`
	// StoragePolicyName of the vCenter.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StoragePolicyName string `json:"storagePolicyName,omitempty"`
}
