// Command controlplane runs a whole Crossplane control plane on this machine, without containers.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/rig-gateway/function-rig/hack/controlplane/demo"
	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/provisioner"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

type cli struct {
	Name string `default:"dev" help:"Name of the control plane. Several run beside each other."`

	Up     upCommand     `cmd:"" help:"Bring the control plane up, or what is missing of it."`
	Down   downCommand   `cmd:"" help:"End everything that up started, and remove its data."`
	Status statusCommand `cmd:"" help:"Print what runs."`
	Demo   demoCommand   `cmd:"" help:"Bring the control plane up and show what it does."`

	Registry    registryCommand    `cmd:"" hidden:"" help:"Serve an OCI registry."`
	Provisioner provisionerCommand `cmd:"" hidden:"" help:"Stand in for Rancher's provisioning."`
}

func (c *cli) open() (*stack.Stack, error) {
	return stack.Open(stack.Options{Name: c.Name, Log: os.Stdout})
}

type upCommand struct{}

func (*upCommand) Run(ctx context.Context, c *cli) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := s.Up(ctx); err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	kubeconfig, err := filepath.Rel(here, s.Kubeconfig(stack.Admin))
	if err != nil {
		return err
	}
	fmt.Printf(`
Up after %.0f s. Use it with

  export KUBECONFIG=$PWD/%s PATH=$PWD/.cache/bin:$PATH
  kubectl get xrd

Beside it are the kubeconfigs of the platform team (platform) and of app teams (%v), logs are in
%s. Next:

  make demo KEEP=1    see it hand out clusters
  make status         see what runs
  make down           end it
`, time.Since(begun).Seconds(), kubeconfig, stack.Teams(), filepath.Dir(s.LogFile(stack.Crossplane)))
	return nil
}

type downCommand struct{}

func (*downCommand) Run(c *cli) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	return s.Down()
}

type statusCommand struct{}

func (*statusCommand) Run(ctx context.Context, c *cli) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	all, err := s.Status(ctx)
	if err != nil {
		return err
	}
	const padding = 2
	table := tabwriter.NewWriter(os.Stdout, 0, 0, padding, ' ', 0)
	rows := []string{"COMPONENT\tPID\tMEMORY\tSTATE\tABOUT"}
	for _, one := range all {
		pid, memory := "-", "-"
		if one.PID != 0 {
			pid, memory = strconv.Itoa(one.PID), fmt.Sprintf("%d MiB", one.MemoryMiB)
		}
		rows = append(rows, strings.Join([]string{one.Component, pid, memory, one.State, one.About}, "\t"))
	}
	if _, err := fmt.Fprintln(table, strings.Join(rows, "\n")); err != nil {
		return err
	}
	return table.Flush()
}

type demoCommand struct {
	Keep bool `help:"Leave the control plane running afterwards."`
}

func (d *demoCommand) Run(ctx context.Context, c *cli) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	if err := s.Up(ctx); err != nil {
		return err
	}
	if err := demo.Run(ctx, s, os.Stdout); err != nil {
		return err
	}
	if d.Keep {
		return nil
	}
	return s.Down()
}

type registryCommand struct {
	Address string `required:""`
	Folder  string `help:"Where blobs are kept." required:""`
}

func (r *registryCommand) Run(ctx context.Context) error {
	const folder = 0o755
	if err := os.MkdirAll(r.Folder, folder); err != nil {
		return err
	}
	blobs := registry.WithBlobHandler(registry.NewDiskBlobHandler(r.Folder))
	server := &http.Server{Addr: r.Address, Handler: registry.New(blobs), ReadHeaderTimeout: time.Second}
	go func() {
		<-ctx.Done()
		server.Close() //nolint:errcheck // The process ends.
	}()
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

type provisionerCommand struct {
	Kubeconfig  string        `required:""`
	Address     string        `required:""`
	CreateDelay time.Duration `required:""`
	DeleteDelay time.Duration `required:""`
}

func (p *provisionerCommand) Run(ctx context.Context) error {
	client, err := kube.New(p.Kubeconfig)
	if err != nil {
		return err
	}
	return provisioner.Run(ctx, provisioner.Options{
		Client: client.Dynamic, Address: p.Address, CreateDelay: p.CreateDelay, DeleteDelay: p.DeleteDelay,
		Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	parsed := kong.Parse(&c, kong.Name("controlplane"), kong.UsageOnError(),
		kong.Description("Runs a whole Crossplane control plane on this machine, without containers."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	parsed.FatalIfErrorf(parsed.Run(&c))
}
