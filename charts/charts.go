// Package charts carries the Helm charts this module ships.
package charts

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

const rke2Cluster = "rke2-cluster"

// FS holds the chart directories, each under its own name.
//
//go:embed all:rke2-cluster
var FS embed.FS

// RKE2Cluster loads the rke2-cluster chart: metadata, default values, values
// schema and templates. Every call returns a chart of its own, so a caller may
// change what it gets. It fails only when the embedded files are no valid chart.
func RKE2Cluster() (*chart.Chart, error) {
	var files []*loader.BufferedFile
	// WalkDir visits in lexical order, so the files arrive sorted.
	err := fs.WalkDir(FS, rke2Cluster, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := FS.ReadFile(path)
		files = append(files, &loader.BufferedFile{Name: strings.TrimPrefix(path, rke2Cluster+"/"), Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read embedded chart %s: %w", rke2Cluster, err)
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("cannot load embedded chart %s: %w", rke2Cluster, err)
	}
	return c, nil
}
