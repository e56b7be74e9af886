// Command release builds and publishes what is installed: the function's image and package for every platform, the
// Configuration's package and the chart. It needs Go and the Crossplane CLI, no Docker.
//
// The version of all of them is that of the chart in the sources. Images and packages depend on the sources, the revision,
// the addresses of the registries and the Go version only: the same inputs give the same digests. Helm writes the time into
// the chart's archive.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Root             string   `default:"." help:"Root of the sources." type:"existingdir"`
	Out              string   `default:".cache/release" help:"Where to write." type:"path"`
	Crossplane       string   `default:".cache/bin/crossplane-cli" help:"Crossplane's CLI." type:"path"`
	Registry         string   `default:"${registry}" help:"Registry and path of the packages and of the chart."`
	ProviderRegistry string   `default:"${providers}" help:"Registry and path of provider-helm and provider-kubernetes."`
	Arch             []string `default:"amd64,arm64" enum:"amd64,arm64" help:"Architectures of the function. Crossplane itself is published for both."`
	Revision         string   `help:"Revision of the sources, for the image's labels."`

	Image   imageCommand   `cmd:"" help:"Build the function for every platform, and an image of each."`
	Xpkg    xpkgCommand    `cmd:"" help:"Build the packages and the chart."`
	Push    pushCommand    `cmd:"" help:"Build and publish the packages and the chart. Prints what was published, with its digest."`
	Notes   notesCommand   `cmd:"" help:"Print what CHANGELOG.md says about the version."`
	Release versionCommand `cmd:"" help:"Print the version." name:"version"`
}

func (c *cli) build() (*build, error) {
	return newBuild(options{
		root: c.Root, out: c.Out, crossplane: c.Crossplane, registry: c.Registry, providerRegistry: c.ProviderRegistry,
		architectures: c.Arch, revision: c.Revision,
	})
}

type imageCommand struct{}

func (*imageCommand) Run(ctx context.Context, c *cli) error {
	b, err := c.build()
	if err != nil {
		return err
	}
	for _, arch := range b.architectures {
		digest, err := b.image(ctx, arch)
		if err != nil {
			return err
		}
		fmt.Printf("%s  %s\n", digest, b.imageFile(arch))
	}
	return nil
}

type xpkgCommand struct{}

func (*xpkgCommand) Run(ctx context.Context, c *cli) error {
	b, err := c.build()
	if err != nil {
		return err
	}
	files, err := b.all(ctx)
	if err != nil {
		return err
	}
	for _, file := range files {
		fmt.Println(file)
	}
	return nil
}

type pushCommand struct{}

func (*pushCommand) Run(ctx context.Context, c *cli) error {
	b, err := c.build()
	if err != nil {
		return err
	}
	if _, err := b.all(ctx); err != nil {
		return err
	}
	published, err := b.push(ctx)
	if err != nil {
		return err
	}
	for _, reference := range published {
		fmt.Println(reference)
	}
	return nil
}

type notesCommand struct{}

func (*notesCommand) Run(c *cli) error {
	b, err := c.build()
	if err != nil {
		return err
	}
	changelog, err := os.ReadFile(filepath.Join(c.Root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	notes, err := notes(string(changelog), b.chart.Metadata.Version)
	if err != nil {
		return err
	}
	fmt.Println(notes)
	return nil
}

// notes are the section of a changelog about a version, without its heading: "## 1.2.3", or that and more.
func notes(changelog, version string) (string, error) {
	var section []string
	inside := false
	for line := range strings.SplitSeq(changelog, "\n") {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			inside = strings.HasPrefix(heading+" ", version+" ")
		} else if inside {
			section = append(section, line)
		}
	}
	if text := strings.TrimSpace(strings.Join(section, "\n")); text != "" {
		return text, nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no section ## %s", version)
}

type versionCommand struct{}

func (*versionCommand) Run(c *cli) error {
	b, err := c.build()
	if err != nil {
		return err
	}
	fmt.Println(b.version())
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	parsed := kong.Parse(&c, kong.Name("release"), kong.UsageOnError(),
		kong.Description("Builds and publishes what is installed."),
		kong.Vars{"registry": exampleRegistry, "providers": exampleProviders},
		kong.BindTo(ctx, (*context.Context)(nil)))
	parsed.FatalIfErrorf(parsed.Run(&c))
}
