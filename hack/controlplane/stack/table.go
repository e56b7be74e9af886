package stack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Names of the components, for Stop, Start and Restart.
const (
	Etcd               = "etcd"
	APIServer          = "kube-apiserver"
	ControllerManager  = "kube-controller-manager"
	InfraAPIServer     = "infra-apiserver"
	InfraControllers   = "infra-controller-manager"
	Registry           = "registry"
	Provisioner        = "provisioner"
	Crossplane         = "crossplane"
	RBACManager        = "crossplane-rbac"
	ProviderHelm       = "provider-helm"
	ProviderKubernetes = "provider-kubernetes"
	Function           = "function"
)

// A component is one program of the stack.
type component struct {
	name string
	// binary in .cache/bin, or its path.
	binary string
	args   []string
	env    []string
	// ready returns nil once the component does its work. Nil where only later steps can tell.
	ready func(context.Context) error
	// about is what status prints.
	about string
}

// portNames are the ports of a stack.
func portNames() []string {
	return []string{
		"etcd", "etcd-peer", "kube-apiserver", "infra-apiserver", "kube-controller-manager", "infra-controller-manager",
		"registry", "provisioner", "crossplane-metrics", "crossplane-health", "crossplane-webhook",
		"provider-kubernetes-metrics", "provider-kubernetes-health", "provider-kubernetes-webhook", "function", "function-metrics",
	}
}

// A stage is started together, once everything before it is ready.
type stage struct {
	components []component
	// install what later stages need, once the components are ready.
	install func(context.Context) error
}

// stages of the stack in the order in which they start.
func (s *Stack) stages() []stage {
	stages := []stage{
		{components: []component{s.etcd()}},
		{components: []component{s.apiServer(APIServer, control), s.apiServer(InfraAPIServer, infra)}},
		{
			components: []component{
				s.controllerManager(ControllerManager, control), s.controllerManager(InfraControllers, infra), s.registry(),
			},
			install: s.installFoundation,
		},
	}
	programs := []component{s.provisioner(), s.crossplane(), s.rbacManager(), s.function()}
	providers := []component{s.providerHelm(), s.providerKubernetes()}
	if s.options.Packages {
		// Crossplane says when providers start, and as whom.
		return append(stages, stage{programs, s.installPackages}, stage{providers, s.installProduct})
	}
	return append(stages, stage{append(programs, providers...), s.installProduct})
}

// components of all stages.
func (s *Stack) components() []component {
	var out []component
	for _, stage := range s.stages() {
		out = append(out, stage.components...)
	}
	return out
}

func (s *Stack) etcd() component {
	client, peer := "http://"+s.ports.address("etcd"), "http://"+s.ports.address("etcd-peer")
	return component{
		name: Etcd, binary: "etcd", about: client,
		args: []string{
			"--data-dir=" + filepath.Join(s.Dir, "etcd"),
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
			"--log-level=warn",
			// What is in it does not outlive a crash of the machine.
			"--unsafe-no-fsync",
		},
		ready: get(client + "/health"),
	}
}

// A side is one of the two Kubernetes APIs: the control plane's own, and the one that stands in for Rancher's and
// Harvester's. They have nothing in common but the etcd behind them.
type side string

const (
	control side = "control"
	infra   side = "infra"
)

func (s *Stack) pki(of side) string { return filepath.Join(s.Dir, "pki", string(of)) }

func (s *Stack) server(of side) string {
	if of == infra {
		return "https://" + s.ports.address("infra-apiserver")
	}
	return "https://" + s.ports.address("kube-apiserver")
}

func (s *Stack) apiServer(name string, of side) component {
	pki, issuer := s.pki(of), "https://kubernetes.default.svc"
	return component{
		name: name, binary: "kube-apiserver", about: s.server(of),
		args: []string{
			"--etcd-servers=http://" + s.ports.address("etcd"), "--etcd-prefix=/" + string(of),
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(s.ports[name]), "--advertise-address=127.0.0.1",
			// Nobody reaches the API server through the Service kubernetes.
			"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
			"--tls-cert-file=" + filepath.Join(pki, "tls.crt"), "--tls-private-key-file=" + filepath.Join(pki, "tls.key"),
			"--client-ca-file=" + filepath.Join(pki, "ca.crt"),
			"--authorization-mode=RBAC", "--anonymous-auth=false", "--profiling=false",
			"--service-account-issuer=" + issuer, "--service-account-key-file=" + filepath.Join(pki, "sa.key"),
			"--service-account-signing-key-file=" + filepath.Join(pki, "sa.key"),
		},
		ready: func(ctx context.Context) error {
			client, err := s.client(of, Admin)
			if err != nil {
				return err
			}
			return client.Ready(ctx)
		},
	}
}

func (s *Stack) controllerManager(name string, of side) component {
	kubeconfig := s.kubeconfig(of, controllerManagerUser)
	return component{
		name: name, binary: "kube-controller-manager", about: "garbage collector, namespaces, service accounts and their tokens",
		args: []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(s.ports[name]), "--leader-elect=false", "--profiling=false",
			"--use-service-account-credentials",
			"--service-account-private-key-file=" + filepath.Join(s.pki(of), "sa.key"), "--root-ca-file=" + filepath.Join(s.pki(of), "ca.crt"),
			"--controllers=garbage-collector-controller,namespace-controller,serviceaccount-controller," +
				"serviceaccount-token-controller,root-ca-certificate-publisher-controller,clusterrole-aggregation-controller",
		},
		ready: func(ctx context.Context) error {
			client, err := s.client(of, Admin)
			if err != nil {
				return err
			}
			_, err = client.Get(ctx, "serviceaccounts", "default", "default")
			return err
		},
	}
}

func (s *Stack) registry() component {
	address := s.Registry()
	return component{
		name: Registry, binary: "controlplane", about: s.ChartRepository() + ", plain HTTP",
		args:  []string{"registry", "--address=" + address, "--folder=" + filepath.Join(s.Dir, "registry")},
		ready: get("http://" + address + "/v2/"),
	}
}

func (s *Stack) provisioner() component {
	address := s.ports.address("provisioner")
	return component{
		name: Provisioner, binary: "controlplane", about: "stands in for Rancher's provisioning and for virtual machines",
		args: []string{
			"provisioner", "--kubeconfig=" + s.kubeconfig(infra, Admin), "--address=" + address,
			"--create-delay=" + s.options.CreateDelay.String(), "--delete-delay=" + s.options.DeleteDelay.String(),
		},
		ready: get("http://" + address + "/readyz"),
	}
}

// crossplane listens for metrics, health and its webhook on every address: it has no flag to say otherwise.
func (s *Stack) crossplane() component {
	return component{
		name: Crossplane, binary: "crossplane-core", about: "health on port " + strconv.Itoa(s.ports["crossplane-health"]),
		args: []string{
			"core", "start", "--package-runtime=Provider=Deployment;Function=External", "--webhook-port=" + strconv.Itoa(s.ports["crossplane-webhook"]),
			"--tls-client-certs-dir=" + s.pki(functions), "--tls-server-certs-dir=" + s.pki(functions),
			"--metrics-port=" + strconv.Itoa(s.ports["crossplane-metrics"]), "--health-probe-port=" + strconv.Itoa(s.ports["crossplane-health"]),
			"--xpkg-cache-dir=" + filepath.Join(s.Dir, "work", Crossplane),
		},
		env:   s.crossplaneEnv(),
		ready: get("http://" + s.ports.address("crossplane-health") + "/readyz"),
	}
}

func (s *Stack) crossplaneEnv() []string {
	return []string{
		"KUBECONFIG=" + s.kubeconfig(control, crossplaneUser), "POD_NAMESPACE=" + Namespace, "POD_SERVICE_ACCOUNT=" + crossplaneUser,
		"TLS_CA_SECRET_NAME=crossplane-root-ca", "TLS_CLIENT_SECRET_NAME=crossplane-tls-client",
	}
}

func (s *Stack) rbacManager() component {
	return component{
		name: RBACManager, binary: "crossplane-core", about: "ClusterRoles of XRDs",
		args: []string{"rbac", "start", "--provider-clusterrole=crossplane:allowed-provider-permissions"},
		env:  []string{"KUBECONFIG=" + s.kubeconfig(control, rbacManagerUser)},
	}
}

// providerHelm is linked to keep its charts in its working folder, and its metrics on a free loopback port: see
// hack/tools/provider-helm/linkflags. Its own addresses of both are fixed, and two stacks would get in each other's way.
func (s *Stack) providerHelm() component {
	return component{
		name: ProviderHelm, binary: "provider-helm", about: "Releases",
		env: []string{"KUBECONFIG=" + s.kubeconfig(control, ProviderHelm)},
	}
}

// providerKubernetes serves its conversion webhook on every address: it has no flag to say otherwise.
func (s *Stack) providerKubernetes() component {
	health := s.ports.address("provider-kubernetes-health")
	return component{
		name: ProviderKubernetes, binary: "provider-kubernetes", about: "Objects",
		args: []string{
			"--sanitize-secrets", "--enable-watches",
			"--metrics-bind-address=" + s.ports.address("provider-kubernetes-metrics"), "--health-probe-bind-addr=" + health,
			"--webhook-port=" + strconv.Itoa(s.ports["provider-kubernetes-webhook"]),
		},
		env:   []string{"KUBECONFIG=" + s.kubeconfig(control, ProviderKubernetes), "TLS_SERVER_CERTS_DIR=" + s.pki(functions)},
		ready: get("http://" + health + "/readyz"),
	}
}

func (s *Stack) function() component {
	address, binary := s.ports.address("function"), "function-rig"
	if s.options.Packages {
		binary = packagedFunction(s.releaseFolder())
	}
	return component{
		name: Function, binary: binary, about: "gRPC with mTLS on " + address,
		args: []string{
			"--address=" + address, "--metrics-address=" + s.ports.address("function-metrics"), "--tls-certs-dir=" + s.pki(functions),
		},
		ready: s.handshake(address),
	}
}

// get is ready when a URL answers with 200.
func get(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close() //nolint:errcheck // Nothing is read.
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

// handshake is ready when a server takes the certificate that Crossplane shows to functions.
func (s *Stack) handshake(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		dir := s.pki(functions)
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			return err
		}
		ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		dialer := tls.Dialer{
			NetDialer: &net.Dialer{Timeout: time.Second},
			Config:    &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: pool, NextProtos: []string{"h2"}},
		}
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}
