// Package gomodule finds the source of modules, which CRDs, charts and roles are taken from.
package gomodule

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
)

// A Module at its version, with the hash that the checksum database has of it.
type Module struct {
	Path    string `json:"Path"`    //nolint:tagliatelle // As the Go tool writes it.
	Version string `json:"Version"` //nolint:tagliatelle // As the Go tool writes it.
	Sum     string `json:"Sum"`     //nolint:tagliatelle // As the Go tool writes it.
	Dir     string `json:"Dir"`     //nolint:tagliatelle // As the Go tool writes it.
	Error   string `json:"Error"`   //nolint:tagliatelle // As the Go tool writes it.
}

// Download a module that the go.mod in a folder pins, or in a folder without one a module at a version.
func Download(ctx context.Context, dir, what string) (Module, error) {
	var m Module
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", what)
	cmd.Dir = dir
	out, err := cmd.Output()
	if jsonErr := json.Unmarshal(out, &m); jsonErr == nil && m.Error != "" {
		return m, fmt.Errorf("cannot download %s: %s", what, m.Error)
	}
	if err != nil {
		return m, fmt.Errorf("cannot download %s: %w", what, err)
	}
	return m, nil
}
