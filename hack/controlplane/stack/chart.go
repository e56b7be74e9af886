package stack

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/registry"

	"github.com/rig-gateway/function-rig/charts"
	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
)

// chartPath is the repository of charts in the registry.
const chartPath = packagesPath + "/charts"

// pushChart packages our chart and pushes it to the registry, as a release does.
func (s *Stack) pushChart(context.Context, *kube.Client) error {
	chart, err := charts.RKE2Cluster()
	if err != nil {
		return err
	}
	archive, err := chartutil.Save(chart, filepath.Join(s.Dir, "work"))
	if err != nil {
		return fmt.Errorf("cannot package chart %s: %w", chart.Name(), err)
	}
	raw, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	if err != nil {
		return fmt.Errorf("cannot use the registry: %w", err)
	}
	reference := fmt.Sprintf("%s/%s/%s:%s", s.Registry(), chartPath, chart.Name(), chart.Metadata.Version)
	if _, err := client.Push(raw, reference); err != nil {
		return fmt.Errorf("cannot push %s: %w", reference, err)
	}
	return s.forgetCharts()
}

// forgetCharts that provider-helm has: it never pulls a version twice.
func (s *Stack) forgetCharts() error {
	return os.RemoveAll(filepath.Join(s.Dir, "work", ProviderHelm, "charts"))
}
