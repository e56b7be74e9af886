package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	fnv1beta1 "github.com/crossplane/function-sdk-go/proto/v1beta1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// stopWithin is what a stop may take altogether.
	stopWithin = 5 * time.Second
	soon       = 10 * time.Second

	// asFunction makes the test's own binary be the function.
	asFunction = "FUNCTION_RIG_TEST_MAIN"
)

func TestMain(m *testing.M) {
	if os.Getenv(asFunction) != "" {
		os.Unsetenv(asFunction) //nolint:errcheck // Nothing is started from here.
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// slow is a function whose runs last until the test lets them go. Runs without a tag end at once.
type slow struct {
	fnv1.UnimplementedFunctionRunnerServiceServer

	begun, release chan struct{}
}

func (s *slow) RunFunction(ctx context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	if req.GetMeta().GetTag() != "" {
		s.begun <- struct{}{}
		select {
		case <-s.release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: req.GetMeta().GetTag(), Ttl: durationpb.New(time.Minute)}}, nil
}

// running is a served function.
type running struct {
	*slow

	grpc, http string
	stop       context.CancelFunc
	// stopped carries what serve returned.
	stopped chan error
}

func start(t *testing.T, certificates string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{
		slow: &slow{begun: make(chan struct{}, 1), release: make(chan struct{})},
		grpc: freeAddress(t), http: freeAddress(t), stop: stop, stopped: make(chan error, 1),
	}
	cli := &CLI{
		Network: "tcp", Address: r.grpc, MetricsAddress: r.http, TLSCertsDir: certificates, Insecure: certificates == "", MaxRecvMessageSize: 1,
	}
	go func() { r.stopped <- serve(ctx, r.slow, cli) }()
	t.Cleanup(stop)
	return r
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.stopped:
		return err
	case <-time.After(stopWithin):
		t.Fatalf("the function does not stop within %s", stopWithin)
		return nil
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l := listen(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

func dial(t *testing.T, address string, c credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("dns:///"+address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func call(t *testing.T, conn *grpc.ClientConn, tag string, options ...grpc.CallOption) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := fnv1.NewFunctionRunnerServiceClient(conn).RunFunction(ctx, &fnv1.RunFunctionRequest{Meta: &fnv1.RequestMeta{Tag: tag}}, options...)
	return err
}

// get an HTTP endpoint. The status is 0 while nobody answers.
func (r *running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.http+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	rsp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	body, err := io.ReadAll(rsp.Body)
	if err := errors.Join(err, rsp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return rsp.StatusCode, string(body)
}

// authority of one trust domain.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func issue(t *testing.T, template *x509.Certificate, parent *authority) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	a := &authority{cert: template, key: key}
	if parent == nil {
		parent = a
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent.cert, &key.PublicKey, parent.key)
	if err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	return a
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	return issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

// files writes a certificate of the authority as Crossplane mounts it, and returns the folder.
func (a *authority) files(t *testing.T) string {
	t.Helper()
	leaf := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "leaf"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	key, err := x509.MarshalECPrivateKey(leaf.key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"ca.crt": a.pem, "tls.crt": leaf.pem, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// client credentials that trust the authority, with the certificate of a folder unless that is empty.
func (a *authority) client(t *testing.T, dir string) credentials.TransportCredentials {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(a.pem)
	if dir != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config)
}

// TestMutualTLS: only clients with a certificate of the same authority are served.
func TestMutualTLS(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	served := start(t, ours.files(t))
	cases := map[string]struct {
		reason string
		client credentials.TransportCredentials
		want   codes.Code
	}{
		"Crossplane": {
			reason: "A client with a certificate of the authority is served.",
			client: ours.client(t, ours.files(t)), want: codes.OK,
		},
		"Plain": {
			reason: "A client without TLS is refused.",
			client: insecure.NewCredentials(), want: codes.Unavailable,
		},
		"NoCertificate": {
			reason: "A client without a certificate is refused.",
			client: ours.client(t, ""), want: codes.Unavailable,
		},
		"OtherAuthority": {
			reason: "A client whose certificate somebody else signed is refused.",
			client: ours.client(t, others.files(t)), want: codes.Unavailable,
		},
	}
	// Refusals mean something only while the function serves.
	if err := call(t, dial(t, served.grpc, ours.client(t, ours.files(t))), "", grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := call(t, dial(t, served.grpc, tc.client), ""); status.Code(err) != tc.want {
				t.Errorf("%s: got %v, want %s", tc.reason, err, tc.want)
			}
		})
	}
}

// TestServices that are offered beside the function itself.
func TestServices(t *testing.T) {
	served := start(t, "")
	conn := dial(t, served.grpc, insecure.NewCredentials())
	if err := call(t, conn, "", grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	if _, err := fnv1beta1.NewFunctionRunnerServiceClient(conn).RunFunction(t.Context(), &fnv1beta1.RunFunctionRequest{}); err != nil {
		t.Errorf("Crossplane v1.16 calls v1beta1: %v", err)
	}
	health, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || health.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health over gRPC: %v, %v", health, err)
	}
	if code, body := served.get(t, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d %s", code, body)
	}
	_, body := served.get(t, "/metrics")
	for _, metric := range []string{
		`grpc_server_handled_total{grpc_code="OK",grpc_method="RunFunction",grpc_service="apiextensions.fn.proto.v1.FunctionRunnerService",grpc_type="unary"} 1`,
		"process_resident_memory_bytes", "go_goroutines",
	} {
		if !strings.Contains(body, metric) {
			t.Errorf("/metrics lacks %s", metric)
		}
	}
}

// TestStop: a run in flight is finished, and nothing keeps the function from stopping in time.
func TestStop(t *testing.T) {
	cases := map[string]struct {
		reason string
		// finishes tells whether the run in flight ends by itself.
		finishes bool
		want     codes.Code
	}{
		"RunInFlight": {reason: "Its response arrives, and no new run is taken.", finishes: true, want: codes.OK},
		"RunHangs":    {reason: "It is cut off.", want: codes.Unavailable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served := start(t, "")
			conn := dial(t, served.grpc, insecure.NewCredentials())
			answered := make(chan error, 1)
			go func() { answered <- call(t, conn, "slow", grpc.WaitForReady(true)) }()
			select {
			case <-served.begun:
			case <-time.After(soon):
				t.Fatal("the run does not begin")
			}
			served.stop()
			begun := time.Now()
			for code := http.StatusOK; code == http.StatusOK; code, _ = served.get(t, "/healthz") {
				if time.Since(begun) > time.Second {
					t.Fatal("/healthz does not tell of the stop")
				}
			}
			if err := call(t, dial(t, served.grpc, insecure.NewCredentials()), ""); status.Code(err) != codes.Unavailable {
				t.Errorf("a new run is answered with %v while the function stops", err)
			}
			if tc.finishes {
				close(served.release)
			}
			if err := served.wait(t); err != nil {
				t.Errorf("%s: %v", tc.reason, err)
			}
			if err := <-answered; status.Code(err) != tc.want {
				t.Errorf("%s: the run ended with %v, want %s", tc.reason, err, tc.want)
			}
		})
	}
}

// TestTakenPorts: a function that cannot serve what it should ends with an error instead of serving half of it.
func TestTakenPorts(t *testing.T) {
	taken := listen(t)
	defer taken.Close() //nolint:errcheck // Nothing depends on it.
	cases := map[string]struct {
		reason string
		cli    CLI
		want   string
	}{
		"GRPC":    {reason: "The port of the function is taken.", cli: CLI{Address: taken.Addr().String()}, want: "cannot listen for gRPC connections: "},
		"Metrics": {reason: "The port of the metrics is taken.", cli: CLI{Address: "127.0.0.1:0", MetricsAddress: taken.Addr().String()}, want: "cannot listen for metrics: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.cli.Network, tc.cli.Insecure, tc.cli.MaxRecvMessageSize = "tcp", true, 1
			if err := serve(t.Context(), &slow{}, &tc.cli); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("%s: error %v, want %s…", tc.reason, err, tc.want)
			}
		})
	}
}

// TestCommand runs the function as a process.
func TestCommand(t *testing.T) {
	command := func(t *testing.T, env string, args ...string) *exec.Cmd {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(os.Environ(), asFunction+"=1", "TLS_SERVER_CERTS_DIR="+env)
		return cmd
	}
	t.Run("Terminated", func(t *testing.T) {
		ours := newAuthority(t)
		address := freeAddress(t)
		// As Crossplane starts it: certificates by environment, and nothing is writable.
		cmd := command(t, ours.files(t), "--address="+address, "--metrics-address="+freeAddress(t))
		output := &strings.Builder{}
		cmd.Stdout, cmd.Stderr, cmd.Dir = output, output, "/proc"
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		conn := dial(t, address, ours.client(t, ours.files(t)))
		if err := call(t, conn, "", grpc.WaitForReady(true)); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		begun := time.Now()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("ended with %v\n%s", err, output)
		}
		if took := time.Since(begun); took > stopWithin {
			t.Errorf("took %s to end", took)
		}
	})
	cases := map[string]struct {
		reason string
		env    string
		args   []string
		want   string
	}{
		"NoCredentials": {
			reason: "Serving without TLS must be asked for.",
			want:   "function-rig: error: cannot serve without certificates: set --tls-certs-dir, or --insecure for local work",
		},
		"Both": {
			reason: "Without TLS although Crossplane mounted certificates is a mistake.",
			env:    "/tls/server", args: []string{"--insecure"},
			want: "function-rig: error: cannot use --insecure together with --tls-certs-dir (TLS_SERVER_CERTS_DIR): leave out one of them",
		},
		"Version": {reason: "The version is the chart's.", args: []string{"--version"}, want: "v" + newFunction(t, time.Now).builder.ChartVersion()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, _ := command(t, tc.env, tc.args...).CombinedOutput()
			if diff := cmp.Diff(tc.want, strings.TrimSpace(string(out))); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
