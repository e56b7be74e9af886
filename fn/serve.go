package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/crossplane/function-sdk-go"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	fnv1beta1 "github.com/crossplane/function-sdk-go/proto/v1beta1"
	grpcprometheus "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

const (
	// drainTimeout is how long runs may take that were in flight when the function was told to stop. The rest of the five
	// seconds is for everything else.
	drainTimeout = 4 * time.Second
	// headerTimeout of the HTTP endpoints.
	headerTimeout = 5 * time.Second
)

// serve until the context ends, then finish what is in flight and return nil. The SDK's Serve offers the same services, but
// no way to stop it, and it hides that the metrics cannot be served.
func serve(ctx context.Context, fn fnv1.FunctionRunnerServiceServer, c *CLI) error {
	options := &function.ServeOptions{}
	for _, option := range []function.ServeOption{function.MTLSCertificates(c.TLSCertsDir), function.Insecure(c.Insecure)} {
		if err := option(options); err != nil {
			return fmt.Errorf("cannot use the certificates in %q: %w", c.TLSCertsDir, err)
		}
	}
	metrics := grpcprometheus.NewServerMetrics()
	server := grpc.NewServer(grpc.Creds(options.Credentials), grpc.MaxRecvMsgSize(c.MaxRecvMessageSize<<20), //nolint:mnd // MiB to bytes.
		grpc.UnaryInterceptor(metrics.UnaryServerInterceptor()))
	fnv1.RegisterFunctionRunnerServiceServer(server, fn)
	fnv1beta1.RegisterFunctionRunnerServiceServer(server, function.ServeBeta(fn))
	state := health.NewServer()
	healthv1.RegisterHealthServer(server, state)
	reflection.Register(server)
	metrics.InitializeMetrics(server)

	listener, err := (&net.ListenConfig{}).Listen(ctx, c.Network, c.Address)
	if err != nil {
		return fmt.Errorf("cannot listen for gRPC connections: %w", err)
	}
	const servers = 2
	failed := make(chan error, servers)
	if c.MetricsAddress != "" {
		plain, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.MetricsAddress)
		if err != nil {
			return errors.Join(fmt.Errorf("cannot listen for metrics: %w", err), listener.Close())
		}
		watched := endpoints(metrics, state)
		defer watched.Close() //nolint:errcheck // Nobody waits for an answer any more.
		go func() { failed <- watched.Serve(plain) }()
	}
	go func() { failed <- server.Serve(listener) }()

	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve: %w", err)
	case <-ctx.Done():
	}
	state.Shutdown()
	timer := time.AfterFunc(drainTimeout, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
	return nil
}

// endpoints over plain HTTP: the kubelet has no client certificate with which it could ask the gRPC health service.
func endpoints(metrics prometheus.Collector, state healthv1.HealthServer) *http.Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if rsp, err := state.Check(r.Context(), &healthv1.HealthCheckRequest{}); err != nil || rsp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			http.Error(w, rsp.GetStatus().String(), http.StatusServiceUnavailable)
		}
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
}
