// Command fn is a Crossplane composition function that hands out Kubernetes clusters within a quota.
package main

import (
	"time"

	"github.com/alecthomas/kong"
	"github.com/crossplane/function-sdk-go"

	"github.com/rig-gateway/function-rig/charts"
	"github.com/rig-gateway/function-rig/internal/builder"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/aws"
	"github.com/rig-gateway/function-rig/strategies/harvester"
	"github.com/rig-gateway/function-rig/strategies/vsphere"
)

// CLI of the function.
type CLI struct {
	Debug              bool   `help:"Log every run." short:"d"`
	Network            string `default:"tcp" help:"Network on which to listen for gRPC connections."`
	Address            string `default:":9443" help:"Address at which to listen for gRPC connections."`
	TLSCertsDir        string `env:"TLS_SERVER_CERTS_DIR" help:"Directory with tls.crt, tls.key and ca.crt (the clients' CA)."`
	Insecure           bool   `help:"Serve without TLS, for local work only. Cannot be used with --tls-certs-dir."`
	MaxRecvMessageSize int    `default:"16" help:"Largest request in MiB. An InfraBlueprint with 1,000 clusters sends a few."`
	MetricsAddress     string `default:":8080" help:"Address of the metrics endpoint. Empty to serve none."`
}

// table of the strategies by the kind of their blueprint. A new provider is one line here.
func table() strategies.Table {
	return strategies.Table{
		"AwsBlueprint":       aws.Open,
		"HarvesterBlueprint": harvester.Open,
		"VsphereBlueprint":   vsphere.Open,
	}
}

// Run serves until it is stopped.
func (c *CLI) Run() error {
	log, err := function.NewLogger(c.Debug)
	if err != nil {
		return err
	}
	chart, err := charts.RKE2Cluster()
	if err != nil {
		return err
	}
	build, err := builder.New(chart)
	if err != nil {
		return err
	}
	return function.Serve(&Function{log: log, providers: table(), builder: build, now: time.Now},
		function.Listen(c.Network, c.Address),
		function.MTLSCertificates(c.TLSCertsDir),
		function.Insecure(c.Insecure),
		function.MaxRecvMessageSize(c.MaxRecvMessageSize*1024*1024),
		function.WithMetricsServer(c.MetricsAddress))
}

func main() {
	ctx := kong.Parse(&CLI{}, kong.Description("A Crossplane composition function that hands out Kubernetes clusters within a quota."))
	ctx.FatalIfErrorf(ctx.Run())
}
