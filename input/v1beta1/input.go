// Package v1beta1 holds the input of the function in a Composition.
//
// +kubebuilder:object:generate=true
// +groupName=fn.rig-gateway.io
// +versionName=v1beta1
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// Input sets how the function works. Everything in it has a default.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=inputs,scope=Cluster
type Input struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Chart is where the cluster chart comes from, unless an InfraBlueprint says otherwise.
	// +optional
	Chart v1alpha1.ChartSource `json:"chart,omitempty"`
	// ConnectionSecretNamespace is where connection secrets of composed resources are written. crossplane-system when left
	// out.
	// +optional
	ConnectionSecretNamespace string `json:"connectionSecretNamespace,omitempty"`
	// Quarantine is how long quota is held after nothing of a cluster is seen any more. 60s when left out; it must be
	// longer than any informer cache of Crossplane lags.
	// +optional
	Quarantine metav1.Duration `json:"quarantine,omitempty"`
	// UnprovisionedQuarantine is the same for a cluster that the provider was never seen to hold. 15m when left out.
	// +optional
	UnprovisionedQuarantine metav1.Duration `json:"unprovisionedQuarantine,omitempty"`
	// SettleDelay is how long the provider must show a changed cluster as finished before the quota that the change freed
	// is let go of. 10s when left out.
	// +optional
	SettleDelay metav1.Duration `json:"settleDelay,omitempty"`
	// StuckAfter is how long the deletion of a cluster may take before the InfraBlueprint says that it is stuck. 30m when
	// left out: Rancher tries three times, for up to ten minutes each, to remove a machine.
	// +optional
	StuckAfter metav1.Duration `json:"stuckAfter,omitempty"`
	// Requeue sets how often Crossplane runs the function when no event does.
	// +optional
	Requeue Requeue `json:"requeue,omitempty"`
}

// Requeue sets how often Crossplane runs the function when no event does.
type Requeue struct {
	// Changed is after an InfraBlueprint changed its ledger, or a cluster its record. 1s when left out.
	// +optional
	Changed metav1.Duration `json:"changed,omitempty"`
	// Open is for an InfraBlueprint with anything open, pending or releasing. 2s when left out.
	// +optional
	Open metav1.Duration `json:"open,omitempty"`
	// Idle is for an InfraBlueprint with nothing to do. 30s when left out, 10s where Crossplane does not watch required
	// resources.
	// +optional
	Idle metav1.Duration `json:"idle,omitempty"`
	// Pending is for a cluster that waits or changes. 20s when left out.
	// +optional
	Pending metav1.Duration `json:"pending,omitempty"`
	// Unresponsive is for a cluster of which Crossplane drops events, since there were too many. 5s when left out.
	// +optional
	Unresponsive metav1.Duration `json:"unresponsive,omitempty"`
	// Steady is for a cluster that neither waits nor changes. 60s when left out.
	// +optional
	Steady metav1.Duration `json:"steady,omitempty"`
}
