package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/structpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

// An answer of a function that a test serves itself.
type answer func(context.Context, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error)

type servedFunction struct {
	fnv1.UnimplementedFunctionRunnerServiceServer

	answer answer
}

func (f servedFunction) RunFunction(ctx context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	return f.answer(ctx, req)
}

// served composites of example.org: kind X<Kind>, claim <Kind>, composed by a function inside the test.
type served struct{ kind string }

func (s served) plural() string     { return strings.ToLower(s.kind) + "s" }
func (s served) claims() string     { return s.plural() + ".example.org" }
func (s served) composites() string { return "x" + s.plural() + ".example.org" }
func (s served) function() string   { return "test-" + strings.ToLower(s.kind) }

// serve composites with a function of the test, until the test ends. It must have removed them by then.
func serve(t *testing.T, kind string, a answer) served {
	t.Helper()
	s := served{kind}
	admin := as(t, stack.Admin)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(functionCredentials(t)))
	fnv1.RegisterFunctionRunnerServiceServer(server, servedFunction{answer: a})
	go server.Serve(listener) //nolint:errcheck // What fails here fails the test: nothing is composed.

	cleanup(t, func(admin user) {
		defer server.Stop()
		for _, o := range []struct{ resource, name string }{
			{"compositions.apiextensions.crossplane.io", s.composites()},
			{"compositeresourcedefinitions.apiextensions.crossplane.io", s.composites()},
			{"functionrevisions.pkg.crossplane.io", stack.FunctionRevision(s.function())},
			{"functions.pkg.crossplane.io", s.function()},
		} {
			if err := admin.client.Delete(context.Background(), o.resource, "", o.name); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("cannot remove %s %s: %v", o.resource, o.name, err)
			}
		}
	})
	if err := stack.RegisterFunction(t.Context(), admin.client, s.function(), listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	admin.apply(fmt.Sprintf(`
apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata: {name: %[1]s}
spec:
  group: example.org
  names: {kind: X%[2]s, plural: x%[3]s}
  claimNames: {kind: %[2]s, plural: %[3]s}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object}
          status: {type: object, properties: {step: {type: string}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: %[1]s}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: X%[2]s}
  mode: Pipeline
  pipeline:
  - {step: test, functionRef: {name: %[4]s}}
`, s.composites(), kind, s.plural(), s.function()))
	admin.eventually(long, "compositeresourcedefinitions.apiextensions.crossplane.io", "", s.composites(),
		condition("Established", "True", ""), condition("Offered", "True", ""))
	err = kube.Wait(t.Context(), long, func(ctx context.Context) error {
		_, err := admin.client.Get(ctx, "clusterroles.rbac.authorization.k8s.io", "", "crossplane:composite:"+s.composites()+":aggregate-to-crossplane")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// functionCredentials are those of the function of the product: Crossplane must show a certificate too.
func functionCredentials(t *testing.T) credentials.TransportCredentials {
	t.Helper()
	dir := plane.FunctionCertificates()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	})
}

// rarely is how often Crossplane runs a function of a test of its own accord: what runs it sooner is an event or a retry.
const rarely = time.Hour

// respond with a status of the composite and what is composed, all of it ready. A version makes the composite's status a
// compare-and-swap.
func respond(req *fnv1.RunFunctionRequest, version string, status map[string]any, composed map[string]map[string]any) (*fnv1.RunFunctionResponse, error) {
	rsp := response.To(req, rarely)
	xr := map[string]any{"apiVersion": "example.org/v1", "kind": observedText(req.GetObserved().GetComposite(), "kind"), "status": status}
	if version != "" {
		xr["metadata"] = map[string]any{"resourceVersion": version}
	}
	object, err := structpb.NewStruct(xr)
	if err != nil {
		return nil, err
	}
	rsp.Desired = &fnv1.State{Composite: &fnv1.Resource{Resource: object}, Resources: map[string]*fnv1.Resource{}}
	for name, o := range composed {
		object, err := structpb.NewStruct(o)
		if err != nil {
			return nil, err
		}
		rsp.Desired.Resources[name] = &fnv1.Resource{Resource: object, Ready: fnv1.Ready_READY_TRUE}
	}
	return rsp, nil
}

// observedText of a resource at a path, empty if there is none.
func observedText(r *fnv1.Resource, path ...string) string {
	in := r.GetResource()
	for _, key := range path[:len(path)-1] {
		in = in.GetFields()[key].GetStructValue()
	}
	return in.GetFields()[path[len(path)-1]].GetStringValue()
}
