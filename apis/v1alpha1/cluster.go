package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterBlueprint is an app team's claim of a Kubernetes cluster: what it needs, never how it is built.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cbp,categories=rig
// +kubebuilder:metadata:annotations="xrd.rig-gateway.io/claim=true"
// +kubebuilder:metadata:annotations="xrd.rig-gateway.io/composite-delete-policy=Foreground"
// +kubebuilder:metadata:annotations="xrd.rig-gateway.io/connection-secret-keys=kubeconfig"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.compositionUpdatePolicy) || self.spec.compositionUpdatePolicy == 'Automatic'",message="clusters follow the platform's Composition: compositionUpdatePolicy must be Automatic"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.compositionRevisionSelector)",message="clusters follow the platform's Composition: compositionRevisionSelector cannot be set"
// +kubebuilder:printcolumn:name="Admitted",type=string,JSONPath=`.status.conditions[?(@.type=="Admitted")].reason`
// +kubebuilder:printcolumn:name="Infra",type=string,JSONPath=`.spec.infraBlueprintRef.name`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.status.provider`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.kubernetesVersion`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.quota.keeps.nodes`
type ClusterBlueprint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterBlueprintSpec `json:"spec"`
	// +optional
	Status ClusterBlueprintStatus `json:"status,omitempty"`
}

// ClusterBlueprintSpec says what a cluster needs.
type ClusterBlueprintSpec struct {
	// InfraBlueprintRef names the InfraBlueprint whose quota the cluster takes from. It cannot be changed: a cluster does
	// not move between infrastructures.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="infraBlueprintRef is immutable: create another cluster instead"
	InfraBlueprintRef InfraBlueprintReference `json:"infraBlueprintRef"`

	// KubernetesVersion is an RKE2 release that the Rancher server offers, such as v1.31.7+rke2r1.
	// +kubebuilder:validation:Pattern=`^v1\.[0-9]+\.[0-9]+\+rke2r[0-9]+$`
	// +kubebuilder:validation:MaxLength=32
	KubernetesVersion string `json:"kubernetesVersion"`

	// Pools of nodes. Together they must have a control plane, an odd number of etcd nodes, and workers.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:XValidation:rule="self.exists(p, 'control-plane' in p.roles)",message="at least one pool needs the role control-plane"
	// +kubebuilder:validation:XValidation:rule="self.exists(p, 'etcd' in p.roles)",message="at least one pool needs the role etcd"
	// +kubebuilder:validation:XValidation:rule="self.exists(p, 'worker' in p.roles)",message="at least one pool needs the role worker"
	// +kubebuilder:validation:XValidation:rule="!self.exists(p, 'etcd' in p.roles) || self.map(p, 'etcd' in p.roles ? p.count : 0).sum() % 2 == 1",message="the pools with the role etcd must have an odd number of nodes together (1, 3, 5): an even number survives no more failures"
	Pools []Pool `json:"pools"`

	// Priority of the cluster among those that wait for quota; a higher one comes first. The platform team bounds what
	// counts of it for each namespace.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Priority int64 `json:"priority,omitempty"`
}

// InfraBlueprintReference names an InfraBlueprint.
type InfraBlueprintReference struct {
	// Name of the InfraBlueprint.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	Name string `json:"name"`
}

// Role of a node in its cluster.
//
// +kubebuilder:validation:Enum=control-plane;etcd;worker
type Role string

// Roles of nodes.
const (
	RoleControlPlane Role = "control-plane"
	RoleEtcd         Role = "etcd"
	RoleWorker       Role = "worker"
)

// Pool is a number of equal nodes. Sizes that are left out come from the provider's blueprint.
type Pool struct {
	// Name of the pool, unique in the cluster.
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=30
	Name string `json:"name"`

	// Count of nodes.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	Count int64 `json:"count"`

	// Roles of each node.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	Roles []Role `json:"roles"`

	// CPU of each node, in virtual cpus.
	// +optional
	CPU Quantity `json:"cpu,omitempty"`
	// Memory of each node, in bytes.
	// +optional
	Memory Quantity `json:"memory,omitempty"`
	// Disk of each node, in bytes.
	// +optional
	Disk Quantity `json:"disk,omitempty"`

	// Labels of each Kubernetes node.
	// +kubebuilder:validation:MaxProperties=50
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Taints of each Kubernetes node.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Taints []Taint `json:"taints,omitempty"`
}

// Taint of a Kubernetes node.
type Taint struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Value string `json:"value,omitempty"`
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect"`
}

// ClusterBlueprintStatus is what the function knows of a cluster.
type ClusterBlueprintStatus struct {
	// Provider is the kind of the provider blueprint that the cluster is built with.
	// +optional
	Provider string `json:"provider,omitempty"`
	// Quota is the cluster's own record of what it keeps of the InfraBlueprint's quota. Only the function writes it.
	// +optional
	Quota *QuotaRecord `json:"quota,omitempty"`
	// Conditions of the cluster.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// QuotaRecord is what one cluster keeps: the upper bound of what may exist of it, and how far it has answered offers.
type QuotaRecord struct {
	// Keeps is what the cluster may use; nothing beyond it is ever rendered.
	Keeps ClusterResources `json:"keeps"`
	// Fence is the revision of the last offer that was answered. Older offers are dead.
	// +optional
	Fence int64 `json:"fence,omitempty"`
	// Generation grows with every change of the pools.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Pools that are rendered, with the sizes they were admitted with.
	// +listType=atomic
	// +optional
	Pools []AdmittedPool `json:"pools,omitempty"`
	// Rolling pools are what may still exist of earlier ones: the most nodes, and the largest node, since the provider
	// last confirmed the rendered pools.
	// +listType=atomic
	// +optional
	Rolling []RollingPool `json:"rolling,omitempty"`
	// SettledSince is when the provider was first seen to show exactly the rendered pools, while others are rolling.
	// +optional
	SettledSince *metav1.Time `json:"settledSince,omitempty"`
}

// AdmittedPool is a pool as it was claimed, with what was made of it at its admission.
type AdmittedPool struct {
	Pool `json:",inline"`
	// Size of each node, defaults applied.
	Size NodeResources `json:"size"`
	// Node is what one node takes of the quota: its size with the provider's overhead.
	Node NodeResources `json:"node"`
	// Type is the provider's machine type, where it has such.
	// +optional
	Type string `json:"type,omitempty"`
}

// RollingPool bounds what may still exist of a pool.
type RollingPool struct {
	// Name of the pool.
	Name string `json:"name"`
	// Count is the most nodes.
	Count int64 `json:"count"`
	// Node is what the largest node takes of the quota, in each dimension.
	Node NodeResources `json:"node"`
}

// NodeResources are the cpus, memory and disk of one node.
type NodeResources struct {
	// CPU in virtual cpus.
	CPU Quantity `json:"cpu"`
	// Memory in bytes.
	Memory Quantity `json:"memory"`
	// Disk in bytes.
	Disk Quantity `json:"disk"`
}

// ClusterResources is what one cluster takes of the quota.
type ClusterResources struct {
	// CPU in virtual cpus.
	// +optional
	CPU Quantity `json:"cpu,omitempty"`
	// Memory in bytes.
	// +optional
	Memory Quantity `json:"memory,omitempty"`
	// Disk in bytes.
	// +optional
	Disk Quantity `json:"disk,omitempty"`
	// Nodes is a number of machines.
	// +optional
	Nodes int64 `json:"nodes,omitempty"`
}
