package stack

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/rig-gateway/function-rig/hack/gomodule"
)

// Tools of the control plane, in the order in which they are built: the ones that take longest first.
func tools() []string {
	return []string{
		"kube-apiserver", "kube-controller-manager", "kubectl", "crossplane-core", "etcd", "provider-helm", "provider-kubernetes",
	}
}

// build every program that is not up to date. They are built one after the other: the Go tool uses every core by itself,
// and two links at once need more memory than a laptop may have.
func (s *Stack) build(ctx context.Context) error {
	s.sayf("building what is not up to date")
	needed, sources := tools(), map[string]string{"function-rig": "./fn", "controlplane": "./hack/controlplane"}
	if s.options.Packages {
		// The function is built with its package.
		needed, sources = append(needed, "crossplane-cli"), map[string]string{"release": "./hack/release", "controlplane": "./hack/controlplane"}
	}
	if err := s.run(ctx, filepath.Join(s.root, "hack", "tools.sh"), needed...); err != nil {
		return err
	}
	for binary, source := range sources {
		if err := s.run(ctx, "go", "build", "-buildvcs=false", "-o", s.binary(binary), source); err != nil {
			return err
		}
	}
	return nil
}

// run a program in the repository, its output in our log.
func (s *Stack) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.root, s.options.Log, s.options.Log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot run %s: %w", filepath.Base(name), err)
	}
	return nil
}

// moduleOf a tool: the version that the tool's go.mod pins.
func (s *Stack) moduleOf(ctx context.Context, tool, path string) (gomodule.Module, error) {
	return gomodule.Download(ctx, filepath.Join(s.root, "hack", "tools", tool), path)
}

// harvester is the release that Harvester's own objects are taken from. No tool is built from it.
var harvester = gomodule.Module{ //nolint:gochecknoglobals // A constant that Go cannot express as one.
	Path: "github.com/harvester/harvester", Version: "v1.5.0", Sum: "h1:rWqYuwMRjC4CkMpcVXL5O9sVFyXNVwUJUviY8stP1no=",
}

// harvesterModule is downloaded outside of any module, so that nothing here depends on all that Harvester does.
func (s *Stack) harvesterModule(ctx context.Context) (gomodule.Module, error) {
	m, err := gomodule.Download(ctx, s.Dir, harvester.Path+"@"+harvester.Version)
	if err == nil && m.Sum != harvester.Sum {
		return m, fmt.Errorf("cannot use %s %s: its hash is %s, not %s", m.Path, m.Version, m.Sum, harvester.Sum)
	}
	return m, err
}
