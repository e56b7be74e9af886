package v1beta1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the input.
var GroupVersion = schema.GroupVersion{Group: "fn.rig-gateway.io", Version: "v1beta1"} //nolint:gochecknoglobals // A constant that Go cannot express as one.

// Default sets what was left out, but for how often an idle InfraBlueprint runs, which depends on Crossplane. The API server never sees an input, so nobody else does.
func (in *Input) Default() {
	if in.ConnectionSecretNamespace == "" {
		in.ConnectionSecretNamespace = "crossplane-system"
	}
	for d, fallback := range map[*metav1.Duration]time.Duration{
		&in.Quarantine:              time.Minute,
		&in.UnprovisionedQuarantine: 15 * time.Minute,
		&in.SettleDelay:             10 * time.Second,
		&in.StuckAfter:              30 * time.Minute,
		&in.Requeue.Changed:         time.Second,
		&in.Requeue.Open:            2 * time.Second,
		&in.Requeue.Pending:         20 * time.Second,
		&in.Requeue.Unresponsive:    5 * time.Second,
		&in.Requeue.Steady:          time.Minute,
	} {
		if d.Duration <= 0 {
			d.Duration = fallback
		}
	}
}
