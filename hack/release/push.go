package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"helm.sh/helm/v3/pkg/registry"
)

// push what all has built, and return references with digests. Credentials are those of docker login. The Configuration
// comes last: what it depends on is there when somebody installs it.
func (b *build) push(ctx context.Context) ([]string, error) {
	client, err := newClient(b.registry)
	if err != nil {
		return nil, err
	}
	functions := make([]string, 0, len(b.architectures))
	for _, arch := range b.architectures {
		functions = append(functions, b.functionFile(arch))
	}
	published := []string{}
	for _, one := range []struct {
		repository, tag string
		push            func(reference string) error
	}{
		{chartPath + "/" + b.chart.Name(), b.chart.Metadata.Version, func(reference string) error {
			raw, err := os.ReadFile(filepath.Join(b.out, fmt.Sprintf("%s-%s.tgz", b.chart.Name(), b.chart.Metadata.Version)))
			if err == nil {
				_, err = client.Push(raw, reference)
			}
			return err
		}},
		{functionName, b.version(), func(reference string) error {
			return b.crossplaneCLI(ctx, "xpkg", "push", "--package-files="+strings.Join(functions, ","), reference)
		}},
		{configurationName, b.version(), func(reference string) error {
			return b.crossplaneCLI(ctx, "xpkg", "push", "--package-files="+b.packageFile(configurationName), reference)
		}},
	} {
		repository := b.registry + "/" + one.repository
		if err := one.push(repository + ":" + one.tag); err != nil {
			return nil, fmt.Errorf("cannot push %s:%s: %w", repository, one.tag, err)
		}
		descriptor, err := client.Resolve(repository + ":" + one.tag)
		if err != nil {
			return nil, fmt.Errorf("cannot find %s:%s, although it was pushed: %w", repository, one.tag, err)
		}
		published = append(published, repository+"@"+descriptor.Digest.String())
	}
	return published, nil
}

// newClient of a registry. Which addresses are plain HTTP is decided by the rule of the Crossplane CLI and of Crossplane:
// those of this machine.
func newClient(address string) (*registry.Client, error) {
	repository, err := name.NewRepository(address)
	if err != nil {
		return nil, err
	}
	options := []registry.ClientOption{registry.ClientOptWriter(os.Stderr)}
	if repository.Scheme() == "http" {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("cannot use the registry: %w", err)
	}
	return client, nil
}
