// Package v1alpha1 holds the kinds of the rig-gateway.io API: the accountant (InfraBlueprint), the request
// (ClusterBlueprint) and the tech specs of each provider.
//
// These types are the single source of the XRDs: run `make generate` after a change.
//
// +kubebuilder:object:generate=true
// +groupName=rig-gateway.io
// +versionName=v1alpha1
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "rig-gateway.io", Version: "v1alpha1"} //nolint:gochecknoglobals // A constant that Go cannot express as one.

// Kinds of composite resources.
const (
	KindInfraBlueprint     = "InfraBlueprint"
	KindXClusterBlueprint  = "XClusterBlueprint"
	KindClusterBlueprint   = "ClusterBlueprint"
	KindHarvesterBlueprint = "HarvesterBlueprint"
	KindVsphereBlueprint   = "VsphereBlueprint"
	KindAwsBlueprint       = "AwsBlueprint"
)

// Labels on everything that a cluster composes, and on the mailboxes between clusters and InfraBlueprints.
const (
	// LabelInfraBlueprint carries the name of the InfraBlueprint.
	LabelInfraBlueprint = "rig-gateway.io/infra-blueprint"
	// LabelCluster carries the name of the XClusterBlueprint.
	LabelCluster = "rig-gateway.io/cluster"
	// LabelBarrier is "true" on the barriers of clusters.
	LabelBarrier = "rig-gateway.io/barrier"
	// LabelBlueprint carries the name of the provider blueprint on what it composes.
	LabelBlueprint = "rig-gateway.io/blueprint"
	// LabelMailbox tells what an EnvironmentConfig carries: one of the Mailbox values.
	LabelMailbox = "rig-gateway.io/mailbox"
)

// Values of LabelMailbox.
const (
	MailboxRequest = "request"
	MailboxPage    = "page"
	MailboxTerms   = "terms"
)

// Annotations.
const (
	// AnnotationHolds on a Release is the footprint of what it renders, as JSON ClusterResources.
	AnnotationHolds = "rig-gateway.io/holds"
	// AnnotationQuota on a Release and a barrier is the quota record it was rendered with, as JSON QuotaRecord.
	AnnotationQuota = "rig-gateway.io/quota"
	// AnnotationGeneration on a Rancher Cluster is the generation of the quota record it was rendered with.
	AnnotationGeneration = "rig-gateway.io/quota-generation"
	// AnnotationBackstop on a namespace at a provider says which InfraBlueprint limits it, and to what.
	AnnotationBackstop = "rig-gateway.io/backstop"
	// AnnotationPaused makes a Crossplane provider leave a managed resource alone while it is "true".
	AnnotationPaused = "crossplane.io/paused"
	// AnnotationExternalName is the name of a managed resource outside the control plane.
	AnnotationExternalName = "crossplane.io/external-name"
	// AnnotationComposedName is Crossplane's name of a composed resource inside its composite.
	AnnotationComposedName = "crossplane.io/composition-resource-name"
	// LabelClaimName and LabelClaimNamespace are put on a composite by Crossplane.
	LabelClaimName      = "crossplane.io/claim-name"
	LabelClaimNamespace = "crossplane.io/claim-namespace"
)
