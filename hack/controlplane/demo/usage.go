package demo

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const barWidth = 32

// usage of an InfraBlueprint as bars.
func usage(infra *unstructured.Unstructured) (string, error) {
	var out strings.Builder
	for _, dimension := range []string{"cpu", "memory", "disk"} {
		shown, _, _ := unstructured.NestedString(infra.Object, "status", "usage", dimension)
		reserved, limit, _ := strings.Cut(shown, "/")
		drawn, err := bar(reserved, limit)
		if err != nil {
			return "", fmt.Errorf("cannot read status.usage.%s %q: %w", dimension, shown, err)
		}
		fmt.Fprintf(&out, "  %-8s%s  %s of %s\n", dimension, drawn, reserved, limit)
	}
	return out.String(), nil
}

// bar of what is reserved. Anything above nothing shows, and only a full quota fills it.
func bar(reserved, limit string) (string, error) {
	r, err := resource.ParseQuantity(reserved)
	if err != nil {
		return "", err
	}
	l, err := resource.ParseQuantity(limit)
	if err != nil {
		return "", err
	}
	filled := 0
	if whole := l.AsApproximateFloat64(); whole > 0 {
		filled = min(barWidth, int(r.AsApproximateFloat64()/whole*barWidth))
	}
	if r.Sign() > 0 {
		filled = max(1, filled)
	}
	return strings.Repeat("█", filled) + strings.Repeat("░", barWidth-filled), nil
}
