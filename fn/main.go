// Command fn is a Crossplane composition function that hands out Kubernetes clusters within a quota.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/crossplane/function-sdk-go"
	"helm.sh/helm/v3/pkg/chart"

	"github.com/rig-gateway/function-rig/charts"
	"github.com/rig-gateway/function-rig/internal/builder"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/aws"
	"github.com/rig-gateway/function-rig/strategies/harvester"
	"github.com/rig-gateway/function-rig/strategies/vsphere"
)

// CLI of the function.
type CLI struct {
	Debug              bool             `help:"Log every run." short:"d"`
	Network            string           `default:"tcp" help:"Network on which to listen for gRPC connections."`
	Address            string           `default:":9443" help:"Address at which to listen for gRPC connections."`
	TLSCertsDir        string           `env:"TLS_SERVER_CERTS_DIR" help:"Directory with tls.crt, tls.key and ca.crt (the clients' CA)."`
	Insecure           bool             `help:"Serve without TLS, for local work only. Cannot be used with --tls-certs-dir."`
	MaxRecvMessageSize int              `default:"16" help:"Largest request in MiB. An InfraBlueprint with 1,000 clusters sends a few."`
	MetricsAddress     string           `default:":8080" help:"Address of the HTTP endpoints /metrics and /healthz. Empty to serve none."`
	Version            kong.VersionFlag `help:"Print the version, which is also that of the chart, and exit."`
}

// table of the strategies by the kind of their blueprint. A new provider is one line here.
func table() strategies.Table {
	return strategies.Table{
		"AwsBlueprint":       aws.Open,
		"HarvesterBlueprint": harvester.Open,
		"VsphereBlueprint":   vsphere.Open,
	}
}

// Validate that it is clear whom to serve. Crossplane sets the certificates in the environment, so a forgotten --insecure
// would quietly win over them.
func (c *CLI) Validate() error {
	if c.Insecure && c.TLSCertsDir != "" {
		return errors.New("cannot use --insecure together with --tls-certs-dir (TLS_SERVER_CERTS_DIR): leave out one of them")
	}
	if !c.Insecure && c.TLSCertsDir == "" {
		return errors.New("cannot serve without certificates: set --tls-certs-dir, or --insecure for local work")
	}
	return nil
}

// Run serves until the context ends.
func (c *CLI) Run(ctx context.Context, chart *chart.Chart) error {
	log, err := function.NewLogger(c.Debug)
	if err != nil {
		return err
	}
	build, err := builder.New(chart)
	if err != nil {
		return err
	}
	return serve(ctx, &Function{log: log, providers: table(), builder: build, now: time.Now}, c)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	chart, err := charts.RKE2Cluster()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // The process ends, so does its handling of signals.
	}
	parsed := kong.Parse(&CLI{}, kong.Name("function-rig"), kong.Vars{"version": "v" + chart.Metadata.Version},
		kong.Description("A Crossplane composition function that hands out Kubernetes clusters within a quota."))
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.FatalIfErrorf(parsed.Run(chart))
}
