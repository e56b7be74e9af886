package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// InfraBlueprint is the accountant of one infrastructure: how much of it may be handed out, with which credentials and
// to which provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ibp,categories=rig
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.providerRef.kind`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.usage.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.usage.memory`
// +kubebuilder:printcolumn:name="Disk",type=string,JSONPath=`.status.usage.disk`
// +kubebuilder:printcolumn:name="Clusters",type=string,JSONPath=`.status.usage.clusters`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Within-Quota",type=string,JSONPath=`.status.conditions[?(@.type=="WithinQuota")].status`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50",message="the name of an InfraBlueprint has at most 50 characters"
type InfraBlueprint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec InfraBlueprintSpec `json:"spec"`
	// +optional
	Status InfraBlueprintStatus `json:"status,omitempty"`
}

// InfraBlueprintSpec says how much may be handed out, and with what.
type InfraBlueprintSpec struct {
	// ProviderRef names the blueprint with the provider's tech specs. Its kind selects the provider.
	ProviderRef ProviderReference `json:"providerRef"`
	// Quota is the most that all clusters together may take.
	Quota Quota `json:"quota"`
	// QueueingStrategy says whether a cluster that fits may be admitted before one that waits in front of it:
	// BestEffortFIFO (the default) lets it pass, StrictFIFO does not. Clusters wait in the order of their priority, then of
	// their creation. One that can never fit, is not allowed or is held by the quota of its namespace blocks nobody.
	// +kubebuilder:default=BestEffortFIFO
	// +optional
	QueueingStrategy QueueingStrategy `json:"queueingStrategy,omitempty"`
	// Access says which namespaces may claim clusters, and how much. When it is left out every namespace may, with
	// priority 0. Clusters of a namespace that loses its access stay as they are; they may shrink and go, not grow.
	// +optional
	Access *Access `json:"access,omitempty"`
	// Credentials by reference; this API holds no secrets.
	Credentials Credentials `json:"credentials"`
	// Rancher says where the clusters are registered.
	// +optional
	Rancher Rancher `json:"rancher,omitempty"`
	// Chart overrides where the cluster chart comes from.
	// +optional
	Chart *ChartSource `json:"chart,omitempty"`
	// ClusterDefaults are values of the cluster chart for every cluster: registries, etcd snapshots, upgrade strategy and
	// so on. What the provider and the claim say wins over them.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	ClusterDefaults *runtime.RawExtension `json:"clusterDefaults,omitempty"`
	// Backstop limits the infrastructure itself, above the quota: what is built past this API, or by a fault of it, stops
	// there. Harvester: the quota of the blueprint's namespace. vSphere: the limits of the blueprint's resource pool. There
	// is none when it is left out.
	// +optional
	Backstop *Backstop `json:"backstop,omitempty"`
}

// ProviderReference names a provider blueprint.
//
// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="providerRef.kind is immutable: create another InfraBlueprint for another provider"
type ProviderReference struct {
	// Kind of the provider blueprint, such as HarvesterBlueprint, VsphereBlueprint or AwsBlueprint.
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*Blueprint$`
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name of the provider blueprint.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// Quota is the most that may be handed out.
type Quota struct {
	// CPU in virtual cpus.
	CPU Quantity `json:"cpu"`
	// Memory in bytes.
	Memory Quantity `json:"memory"`
	// Disk in bytes.
	Disk Quantity `json:"disk"`
	// Nodes is a number of machines. Unlimited when left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Nodes *int64 `json:"nodes,omitempty"`
	// Clusters is a number of clusters. Unlimited when left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Clusters *int64 `json:"clusters,omitempty"`
	// SurgeReserve is kept free of the quota: room for the machines that a rolling update adds before it removes others.
	// Nothing when left out.
	// +optional
	SurgeReserve *ClusterResources `json:"surgeReserve,omitempty"`
}

// QueueingStrategy is the order in which clusters that wait are admitted.
//
// +kubebuilder:validation:Enum=BestEffortFIFO;StrictFIFO
type QueueingStrategy string

// Queueing strategies.
const (
	BestEffortFIFO QueueingStrategy = "BestEffortFIFO"
	StrictFIFO     QueueingStrategy = "StrictFIFO"
)

// Access says who may claim clusters.
type Access struct {
	// Namespaces that may claim clusters. The rule that names a namespace wins over patterns, a longer pattern over a
	// shorter one.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=500
	// +listType=map
	// +listMapKey=name
	Namespaces []NamespaceRule `json:"namespaces"`
}

// NamespaceRule says what the clusters of a namespace may take.
type NamespaceRule struct {
	// Name of a namespace, or a pattern of names in which * stands for any characters, such as team-*.
	// +kubebuilder:validation:Pattern=`^[a-z0-9*]([-a-z0-9*]*[a-z0-9*])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Quota is the most that the clusters of one such namespace may take together, within the quota of the InfraBlueprint.
	// What is left out is not limited further.
	// +optional
	Quota *NamespaceQuota `json:"quota,omitempty"`
	// MaxPriority is the highest priority that counts of what claims of such a namespace ask for.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxPriority int64 `json:"maxPriority,omitempty"`
}

// NamespaceQuota is the most that one namespace may take.
type NamespaceQuota struct {
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
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Nodes *int64 `json:"nodes,omitempty"`
	// Clusters is a number of clusters.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Clusters *int64 `json:"clusters,omitempty"`
}

// Backstop is a limit at the provider: the quota, and headroom for what machines take beyond it for a while.
type Backstop struct {
	// ParallelMigrations is how many machines may be moved to another host at the same time: each exists twice meanwhile.
	// Room is kept for so many of the largest. Only Harvester counts them.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ParallelMigrations *int64 `json:"parallelMigrations,omitempty"`
	// SurgeMachines is how many machines may exist beyond the quota while Rancher rolls nodes: one of each pool that rolls.
	// Room is kept for so many of the largest.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	SurgeMachines *int64 `json:"surgeMachines,omitempty"`
	// Volumes of workloads, for which room is kept. Harvester counts them in the same namespace; without this it limits no
	// disk, unless limit.disk does.
	// +optional
	Volumes *BackstopVolumes `json:"volumes,omitempty"`
	// Limit instead of the quota and the headroom, in the dimensions that it names. One below what is reserved and the
	// headroom is refused: the one before stays.
	// +optional
	Limit *BackstopResources `json:"limit,omitempty"`
}

// BackstopVolumes are the volumes of the workloads of all clusters.
type BackstopVolumes struct {
	// Count is how many are attached at the same time.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Count int64 `json:"count"`
	// Disk is the size of all of them.
	Disk Quantity `json:"disk"`
}

// BackstopResources are amounts of the dimensions that a backstop limits.
type BackstopResources struct {
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

// Credentials are references to what opens the infrastructure.
//
// +kubebuilder:validation:XValidation:rule="has(self.rancherProviderConfigRef) != has(self.rancherKubeconfigSecretRef)",message="say either rancherProviderConfigRef or rancherKubeconfigSecretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.infrastructureProviderConfigRef) || !has(self.infrastructureKubeconfigSecretRef)",message="say either infrastructureProviderConfigRef or infrastructureKubeconfigSecretRef"
type Credentials struct {
	// RancherProviderConfigRef names the ProviderConfigs of provider-helm and provider-kubernetes, both of this name, that
	// reach the Rancher management cluster.
	// +optional
	RancherProviderConfigRef ProviderConfigReference `json:"rancherProviderConfigRef,omitzero"`
	// RancherKubeconfigSecretRef names a Secret with a kubeconfig of the Rancher management cluster. The ProviderConfigs
	// are then made of it: rig-<name of the InfraBlueprint>-rancher.
	// +optional
	RancherKubeconfigSecretRef *SecretKeyReference `json:"rancherKubeconfigSecretRef,omitempty"`
	// InfrastructureProviderConfigRef names the ProviderConfig that reaches the infrastructure: of provider-kubernetes for
	// Harvester, which needs it; of provider-vsphere or of the AWS providers where their blueprint manages something.
	// +optional
	InfrastructureProviderConfigRef *ProviderConfigReference `json:"infrastructureProviderConfigRef,omitempty"`
	// InfrastructureKubeconfigSecretRef names a Secret with a kubeconfig of the infrastructure, where that is a Kubernetes
	// cluster, such as Harvester. The ProviderConfig of provider-kubernetes is then made of it:
	// rig-<name of the InfraBlueprint>-infrastructure.
	// +optional
	InfrastructureKubeconfigSecretRef *SecretKeyReference `json:"infrastructureKubeconfigSecretRef,omitempty"`
	// CloudCredentialSecretName is Rancher's cloud credential for the provider, such as cattle-global-data:cc-abcde.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	CloudCredentialSecretName string `json:"cloudCredentialSecretName"`
}

// ProviderConfigReference names a ProviderConfig.
type ProviderConfigReference struct {
	// Name of the ProviderConfig.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Rancher says where the clusters are registered.
type Rancher struct {
	// Namespace of the Rancher clusters.
	// +kubebuilder:default=fleet-default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ChartSource says where the cluster chart comes from.
type ChartSource struct {
	// Repository of the chart: oci://host/path or https://host/path.
	// +kubebuilder:validation:Pattern=`^(oci|https?)://.+`
	// +optional
	Repository string `json:"repository,omitempty"`
	// Version of the chart. The function's own version of it when left out.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Version string `json:"version,omitempty"`
	// PullSecretRef names a Secret with the keys username and password.
	// +optional
	PullSecretRef *SecretReference `json:"pullSecretRef,omitempty"`
	// PlainHTTP pulls the chart without TLS.
	// +optional
	PlainHTTP bool `json:"plainHTTP,omitempty"`
}

// SecretReference names a Secret on the control plane.
type SecretReference struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
}

// SecretKeyReference names a key of a Secret on the control plane.
type SecretKeyReference struct {
	SecretReference `json:",inline"`
	// Key in the Secret.
	// +kubebuilder:default=kubeconfig
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
}

// InfraBlueprintStatus is the ledger and what can be read off it.
type InfraBlueprintStatus struct {
	// Ledger says what is reserved for which cluster. Only the function writes it.
	// +optional
	Ledger *Ledger `json:"ledger,omitempty"`
	// Usage shows what is reserved of each limit, such as 40/64.
	// +optional
	Usage *Usage `json:"usage,omitempty"`
	// Buckets show where the quota is.
	// +optional
	Buckets *Buckets `json:"buckets,omitempty"`
	// Waiting is the number of clusters that wait for quota.
	// +optional
	Waiting int64 `json:"waiting"`
	// Backstop shows what the provider is told. It stays while the spec is refused.
	// +optional
	Backstop *BackstopStatus `json:"backstop,omitempty"`
	// Conditions of the InfraBlueprint.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BackstopStatus shows a backstop. Dimensions that the provider does not limit are left out.
type BackstopStatus struct {
	// Limit at the provider.
	Limit BackstopResources `json:"limit"`
	// Headroom is what may exist beyond what is reserved.
	Headroom BackstopResources `json:"headroom"`
}

// Usage shows reserved/limit of each dimension.
type Usage struct {
	CPU      string `json:"cpu"`
	Memory   string `json:"memory"`
	Disk     string `json:"disk"`
	Nodes    string `json:"nodes"`
	Clusters string `json:"clusters"`
}

// Buckets show where the quota is: used, pending and releasing are reserved, free is the rest.
type Buckets struct {
	// Used by clusters, or about to be.
	Used ClusterResources `json:"used"`
	// Pending offers that clusters have not answered yet.
	Pending ClusterResources `json:"pending"`
	// Releasing is held for clusters that were deleted, until nothing of them is left.
	Releasing ClusterResources `json:"releasing"`
	// Free to be handed out; the surge reserve is not.
	Free ClusterResources `json:"free"`
}

// Ledger says what is reserved for which cluster.
type Ledger struct {
	// Revision grows with every offer.
	Revision int64 `json:"revision"`
	// Grants to clusters, sorted by cluster.
	// +listType=atomic
	// +optional
	Grants []Grant `json:"grants,omitempty"`
	// Queue of the clusters that wait, in order; the first 50.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Queue []QueuedCluster `json:"queue,omitempty"`
}

// Grant is what is reserved for one cluster.
type Grant struct {
	// Cluster is the name of the XClusterBlueprint.
	Cluster string `json:"cluster"`
	// Claim is namespace/name of the ClusterBlueprint.
	// +optional
	Claim string `json:"claim,omitempty"`
	// Amount reserved, an open offer included.
	Amount ClusterResources `json:"amount"`
	// Revision of the last offer made to it. Zero when none was.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// Provisioned says that the provider has been seen to hold the cluster.
	// +optional
	Provisioned bool `json:"provisioned,omitempty"`
	// Releasing says that the cluster was deleted and something of it is left.
	// +optional
	Releasing bool `json:"releasing,omitempty"`
	// GoneSince is when nothing of the cluster was seen any more.
	// +optional
	GoneSince *metav1.Time `json:"goneSince,omitempty"`
}

// QueuedCluster waits for quota.
type QueuedCluster struct {
	// Cluster is the name of the XClusterBlueprint.
	Cluster string `json:"cluster"`
	// Claim is namespace/name of the ClusterBlueprint.
	// +optional
	Claim string `json:"claim,omitempty"`
	// Priority that counts.
	// +optional
	Priority int64 `json:"priority,omitempty"`
	// Needs is what the cluster asks for altogether.
	Needs ClusterResources `json:"needs"`
	// Short is what is missing of it.
	Short Shortfall `json:"short"`
	// OfNamespace says that it is missing of what the namespace may take.
	// +optional
	OfNamespace bool `json:"ofNamespace,omitempty"`
	// Reason it waits: QuotaExceeded, NeverFits or NamespaceNotAllowed.
	Reason string `json:"reason"`
}

// Shortfall is what is missing in each dimension.
type Shortfall struct {
	ClusterResources `json:",inline"`
	// Clusters is a number of clusters.
	// +optional
	Clusters int64 `json:"clusters,omitempty"`
}
