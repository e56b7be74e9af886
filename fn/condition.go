package main

import (
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// Condition types. Ready, Synced and Responsive are Crossplane's own.
const (
	typeAdmitted      = "Admitted"
	typeProvisioned   = "Provisioned"
	typeWithinQuota   = "WithinQuota"
	typeProviderReady = "ProviderReady"
	typeReleaseStuck  = "ReleaseStuck"
	typeBackstop      = "Backstop"
)

// Condition reasons.
const (
	reasonAdmitted               = "Admitted"
	reasonAwaitingAdmission      = "AwaitingAdmission"
	reasonInfraBlueprintNotFound = "InfraBlueprintNotFound"
	reasonInvalidSpec            = "InvalidSpec"
	reasonProvisioning           = "Provisioning"
	reasonProvisioned            = "Provisioned"
	reasonProviderNotReady       = "ProviderNotReady"
	reasonProvisioningFailed     = "ProvisioningFailed"
	reasonClusterLost            = "ClusterLost"
	reasonWithinQuota            = "WithinQuota"
	reasonOverQuota              = "OverQuota"
	reasonNoneStuck              = "NoneStuck"
	reasonDeletionStuck          = "DeletionStuck"
	reasonBackstopDisabled       = "BackstopDisabled"
	reasonBackstopEnforced       = "BackstopEnforced"
	reasonBackstopPending        = "BackstopPending"
	reasonBackstopNotEnforced    = "BackstopNotEnforced"
	reasonBackstopTooLow         = "BackstopTooLow"
	reasonBackstopUnsupported    = "BackstopUnsupported"
	reasonPreflightPending       = "PreflightPending"
	reasonPreflightPassed        = "PreflightPassed"
	reasonPreflightFailed        = "PreflightFailed"
	reasonBlueprintNotFound      = "BlueprintNotFound"
	reasonInternalError          = "InternalError"
	reasonInvalidInput           = "InvalidInput"
)

// conditionTypes of a kind. Each of them is set on every run.
func conditionTypes(kind string) []string {
	switch kind {
	case v1alpha1.KindXClusterBlueprint, v1alpha1.KindClusterBlueprint:
		return []string{typeAdmitted, typeProvisioned}
	case v1alpha1.KindInfraBlueprint:
		return []string{typeWithinQuota, typeReleaseStuck, typeProviderReady, typeBackstop}
	}
	return []string{typeProviderReady}
}

// maxMessage is the longest condition message in characters.
const maxMessage = 1024

// condition of a composite and its claim.
type condition struct {
	conditionType string
	status        fnv1.Status
	reason        string
	message       string
}

func isFalse(conditionType, reason, message string) condition {
	return condition{conditionType, fnv1.Status_STATUS_CONDITION_FALSE, reason, message}
}

func isUnknown(conditionType, reason, message string) condition {
	return condition{conditionType, fnv1.Status_STATUS_CONDITION_UNKNOWN, reason, message}
}

func isMet(conditionType, reason, message string) condition {
	return condition{conditionType, fnv1.Status_STATUS_CONDITION_TRUE, reason, message}
}

// set the condition in a response.
func (c condition) set(rsp *fnv1.RunFunctionResponse) {
	message := c.message
	if runes := []rune(message); len(runes) > maxMessage {
		message = string(runes[:maxMessage-1]) + "…"
	}
	var option *response.ConditionOption
	switch c.status {
	case fnv1.Status_STATUS_CONDITION_TRUE:
		option = response.ConditionTrue(rsp, c.conditionType, c.reason)
	case fnv1.Status_STATUS_CONDITION_FALSE:
		option = response.ConditionFalse(rsp, c.conditionType, c.reason)
	case fnv1.Status_STATUS_CONDITION_UNKNOWN, fnv1.Status_STATUS_CONDITION_UNSPECIFIED:
		option = response.ConditionUnknown(rsp, c.conditionType, c.reason)
	}
	option.TargetCompositeAndClaim()
	if message != "" {
		option.WithMessage(message)
	}
}
