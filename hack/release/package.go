package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	functionName      = "function-rig"
	configurationName = "configuration-rig"
	// chartPath is where charts are below the registry's path.
	chartPath = "charts"

	// What the sources call the registries and, after its repository, the function.
	exampleRegistry  = "registry.example.org/rig-gateway"
	exampleProviders = "registry.example.org/crossplane-contrib"
	exampleFunction  = "rig-gateway-function-rig"
	// functionRange in the Configuration has only the lowest version of the function.
	functionRange = `version: ">=v0.1.0-0"`
)

type options struct {
	root, out, crossplane      string
	registry, providerRegistry string
	architectures              []string
	revision                   string
}

// A build of one version for one registry.
type build struct {
	options

	// function is the name of its object in a control plane.
	function string
	chart    *chart.Chart
}

func newBuild(o options) (*build, error) {
	function, err := functionObject(o.registry)
	if err != nil {
		return nil, err
	}
	if _, err := name.NewRepository(o.providerRegistry, name.StrictValidation); err != nil {
		return nil, fmt.Errorf("cannot use provider registry %q: give its host and a path, such as %s: %w", o.providerRegistry, exampleProviders, err)
	}
	c, err := loader.Load(filepath.Join(o.root, "charts", "rke2-cluster"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the chart: %w", err)
	}
	return &build{options: o, function: function, chart: c}, nil
}

// version of everything. The function installs the chart that it was built with, so they cannot differ.
func (b *build) version() string { return "v" + b.chart.Metadata.Version }

func (b *build) packageFile(name string) string { return filepath.Join(b.out, name+".xpkg") }

func (b *build) functionFile(arch string) string { return b.packageFile(functionName + "-" + arch) }

// functionObject is what Crossplane calls a function that it installs because a Configuration depends on it: the path of
// its repository in the registry, as a DNS label. Crossplane's own function for it (ToDNSLabel of crossplane-runtime's
// pkg/xpkg) would bring a hundred modules with it, and drops characters that are no part of a label, so that two
// repositories may get one name. Here such paths are errors.
func functionObject(registry string) (string, error) {
	repository, err := name.NewRepository(registry+"/"+functionName, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("cannot use registry %q: give its host and a path, such as %s: %w", registry, exampleRegistry, err)
	}
	label := strings.NewReplacer("/", "-", ".", "-").Replace(repository.RepositoryStr())
	if faults := validation.IsDNS1123Label(label); len(faults) > 0 {
		return "", fmt.Errorf("cannot use registry %q: Crossplane makes the function's name of the path, and %q %s", registry, label, strings.Join(faults, ", "))
	}
	return label, nil
}

// all that is published, as files.
func (b *build) all(ctx context.Context) ([]string, error) {
	if err := os.MkdirAll(b.out, executable); err != nil {
		return nil, err
	}
	staged, err := os.MkdirTemp(b.out, "sources-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(staged) //nolint:errcheck // Nothing depends on it.
	for _, folder := range []string{"apis", "examples", "package"} {
		if err := b.stage(folder, staged); err != nil {
			return nil, err
		}
	}
	examples := "--examples-root=" + filepath.Join(staged, "examples")
	var files []string
	for _, arch := range b.architectures {
		if _, err := b.image(ctx, arch); err != nil {
			return nil, err
		}
		files = append(files, b.functionFile(arch))
		if err := b.crossplaneCLI(ctx, "xpkg", "build", "--package-root="+filepath.Join(staged, "package"), examples,
			"--embed-runtime-image-tarball="+b.imageFile(arch), "--package-file="+b.functionFile(arch)); err != nil {
			return nil, err
		}
	}
	files = append(files, b.packageFile(configurationName))
	if err := b.crossplaneCLI(ctx, "xpkg", "build", "--package-root="+filepath.Join(staged, "apis"), examples,
		"--package-file="+b.packageFile(configurationName)); err != nil {
		return nil, err
	}
	archive, err := chartutil.Save(b.chart, b.out)
	if err != nil {
		return nil, fmt.Errorf("cannot package the chart: %w", err)
	}
	return append(files, archive), nil
}

// stage copies the YAML of a folder, with the addresses and the version of this build.
func (b *build) stage(folder, to string) error {
	replacer := strings.NewReplacer(
		exampleRegistry, b.registry, exampleProviders, b.providerRegistry, exampleFunction, b.function,
		functionRange, strings.TrimSuffix(functionRange, `"`)+", <="+b.version()+`"`)
	sources := os.DirFS(b.root)
	return fs.WalkDir(sources, folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		raw, err := fs.ReadFile(sources, path)
		if err != nil {
			return err
		}
		return write(filepath.Join(to, path), []byte(replacer.Replace(string(raw))), regular)
	})
}

func (b *build) crossplaneCLI(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, b.crossplane, args...)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing: run make tools", b.crossplane)
	}
	if err != nil {
		return fmt.Errorf("cannot run crossplane %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
