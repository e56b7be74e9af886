package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rig-gateway/function-rig/charts"
	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
)

const (
	// exampleRegistry is the host that the documentation and the sources name.
	exampleRegistry = "registry.example.org"
	// packagesPath and providersPath are where packages are in a registry. Crossplane makes names of them.
	packagesPath  = "rig-gateway"
	providersPath = "crossplane-contrib"

	labelPackage = "pkg.crossplane.io/package"
	serverSecret = FunctionName + "-tls-server"

	runtimePeriod  = 100 * time.Millisecond
	runtimeTimeout = time.Minute
)

// A provider of the stack: its module, which has its package, and the tool and component that it is built into.
type provider struct{ component, module string }

func providers() []provider {
	return []provider{
		{ProviderHelm, "github.com/crossplane-contrib/provider-helm"},
		{ProviderKubernetes, "github.com/crossplane-contrib/provider-kubernetes"},
	}
}

// Registry is the address of the stack's OCI registry, which speaks plain HTTP.
func (s *Stack) Registry() string { return s.ports.address("registry") }

// FunctionImage is where a version of the function's package is: v1.2.3.
func (s *Stack) FunctionImage(version string) string {
	return s.Registry() + "/" + packagesPath + "/function-rig:" + version
}

// ConfigurationImage is where a version of the Configuration's package is.
func (s *Stack) ConfigurationImage(version string) string {
	return s.Registry() + "/" + packagesPath + "/configuration-rig:" + version
}

// Version of the packages that the stack is built with.
func Version() (string, error) {
	chart, err := charts.RKE2Cluster()
	if err != nil {
		return "", err
	}
	return "v" + chart.Metadata.Version, nil
}

// Publish builds the packages and the chart of some sources and pushes them to the stack's registry, as make push does, but
// only for the architecture of this machine. It returns the function's binary, which is that of the package.
func (s *Stack) Publish(ctx context.Context, sources, out string) (string, error) {
	err := s.run(ctx, s.binary("release"), "--root="+sources, "--out="+out, "--crossplane="+s.binary("crossplane-cli"), "--arch="+runtime.GOARCH,
		"--registry="+s.Registry()+"/"+packagesPath, "--provider-registry="+s.Registry()+"/"+providersPath, "push")
	return packagedFunction(out), err
}

// packagedFunction is where a release leaves the binary of the function's image.
func packagedFunction(out string) string {
	return filepath.Join(out, "linux-"+runtime.GOARCH, "rootfs", "usr", "local", "bin", "function-rig")
}

// releaseFolder is what the packages of the stack are built in.
func (s *Stack) releaseFolder() string { return filepath.Join(s.Dir, "release") }

// publishAll pushes everything that an installation pulls: our packages and chart, and those of the providers, whose
// modules have all but the image in them.
func (s *Stack) publishAll(ctx context.Context) error {
	if _, err := s.Publish(ctx, s.root, s.releaseFolder()); err != nil {
		return err
	}
	for _, p := range providers() {
		module, err := s.moduleOf(ctx, p.component, p.module)
		if err != nil {
			return err
		}
		file := filepath.Join(s.releaseFolder(), p.component+".xpkg")
		for _, args := range [][]string{
			{"build", "--package-root=" + filepath.Join(module.Dir, "package"), "--examples-root=" + filepath.Join(s.Dir, "none"), "--package-file=" + file},
			{"push", "--package-files=" + file, s.Registry() + "/" + providersPath + "/" + p.component + ":" + module.Version},
		} {
			if err := s.run(ctx, s.binary("crossplane-cli"), append([]string{"xpkg"}, args...)...); err != nil {
				return err
			}
		}
	}
	s.sayf("%-25s pushed: function, Configuration, chart, providers", "packages")
	return s.forgetCharts()
}

// installPackages does what docs/install.md says, and nothing else: Crossplane installs the product.
func (s *Stack) installPackages(ctx context.Context) error {
	return s.Guide(ctx, "1. The Configuration")
}

// Guide runs the commands of a section of docs/install.md as they are, on the stack's registry, in a folder with
// examples/install in it. While it runs, and only then, the stack is the runtime of packages.
func (s *Stack) Guide(ctx context.Context, section string) error {
	guide, err := os.ReadFile(filepath.Join(s.root, "docs", "install.md"))
	if err != nil {
		return err
	}
	script, err := commandsOf(string(guide), section)
	if err != nil {
		return fmt.Errorf("docs/install.md: %w", err)
	}
	registry := strings.NewReplacer(exampleRegistry, s.Registry())
	work := filepath.Join(s.Dir, "work", "guide")
	const examples = "examples/install"
	files, err := os.ReadDir(filepath.Join(s.root, examples))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(work, examples), folder); err != nil {
		return err
	}
	for _, file := range files {
		raw, err := os.ReadFile(filepath.Join(s.root, examples, file.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, examples, file.Name()), []byte(registry.Replace(string(raw))), private); err != nil {
			return err
		}
	}
	return s.withRuntime(ctx, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", registry.Replace(script))
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "HOME="+work, "KUBECONFIG="+s.Kubeconfig(Admin), "PATH="+filepath.Dir(s.Kubectl())+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("docs/install.md: cannot run %q: %w: %s", section, err, strings.TrimSpace(string(out)))
		}
		s.sayf("%-25s done: %s", "docs/install.md", section)
		return nil
	})
}

// commandsOf a section of a guide: the code below a heading, up to the next one.
func commandsOf(guide, section string) (string, error) {
	var out []string
	inside, code := false, false
	for line := range strings.SplitSeq(guide, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code && inside:
			out = append(out, line)
		case !code && strings.HasPrefix(line, "#"):
			inside = strings.TrimLeft(line, "# ") == section
		}
	}
	if len(out) == 0 {
		return "", fmt.Errorf("there are no commands below a heading %q", section)
	}
	return strings.Join(out, "\n"), nil
}

// withRuntime plays the runtime of packages while something else is done.
func (s *Stack) withRuntime(ctx context.Context, do func(context.Context) error) error {
	client, err := s.Client(Admin)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for well := time.Now(); ctx.Err() == nil; {
			// As on a cluster, what fails is tried again. What goes on failing ends the wait for it.
			if err := s.runPackages(ctx, client); err == nil {
				well = time.Now()
			} else if time.Since(well) > runtimeTimeout {
				stop(fmt.Errorf("cannot run packages: %w", err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(runtimePeriod):
			}
		}
	}()
	err = do(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = errors.Join(cause, err)
	}
	stop(nil)
	<-ended
	return err
}

// runPackages once: every active revision of a package that has no runtime yet is given one.
//
// Of a provider, Crossplane makes all that it does on a cluster: ServiceAccount, Service, certificates and Deployment. What
// is missing is the kubelet: the provider's program is started as the Deployment's ServiceAccount, and the Deployment is
// available. For a function, Crossplane would write an address that only a cluster's DNS knows. So functions have the
// External runtime, of which we are the controller: it makes the Secret of the server's certificate and writes the endpoint.
func (s *Stack) runPackages(ctx context.Context, client *kube.Client) error {
	functions, err := activeRevisions(ctx, client, "functionrevisions.pkg.crossplane.io", FunctionName)
	if err != nil {
		return err
	}
	for _, revision := range functions {
		if err := s.runFunctionRevision(ctx, client, &revision); err != nil {
			return err
		}
	}
	for _, p := range providers() {
		revisions, err := activeRevisions(ctx, client, "providerrevisions.pkg.crossplane.io", providersPath+"-"+p.component)
		if err != nil {
			return err
		}
		for _, revision := range revisions {
			if err := s.runProviderRevision(ctx, client, p, revision.GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

func activeRevisions(ctx context.Context, client *kube.Client, resource, name string) ([]unstructured.Unstructured, error) {
	revisions, err := client.List(ctx, resource, "", labelPackage+"="+name)
	return slices.DeleteFunc(revisions, func(o unstructured.Unstructured) bool {
		state, _, _ := unstructured.NestedString(o.Object, "spec", "desiredState")
		return state != "Active"
	}), err
}

func (s *Stack) runFunctionRevision(ctx context.Context, client *kube.Client, revision *unstructured.Unstructured) error {
	if endpoint, _, _ := unstructured.NestedString(revision.Object, "status", "endpoint"); endpoint != "" {
		return nil
	}
	image, _, _ := unstructured.NestedString(revision.Object, "spec", "image")
	address, err := s.functionAddress(image)
	if err != nil {
		return err
	}
	secret := map[string]any{}
	for _, file := range []string{"ca.crt", "tls.crt", "tls.key"} {
		raw, err := os.ReadFile(filepath.Join(s.FunctionCertificates(), file))
		if err != nil {
			return err
		}
		secret[file] = string(raw)
	}
	if err := applySecret(ctx, client, serverSecret, secret); err != nil {
		return err
	}
	s.sayf("%-25s runs on %s", image, address)
	return client.ApplyStatus(ctx, withStatus(revision, map[string]any{
		"endpoint": "dns:///" + address, "tlsServerSecretName": serverSecret,
		"conditions": []any{isTrue("RuntimeHealthy", "HealthyPackageRevision")},
	}))
}

// functionAddress is where a version of the function serves.
func (s *Stack) functionAddress(image string) (string, error) {
	version, err := Version()
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if address, ok := s.functions[image]; ok {
		return address, nil
	}
	if image == s.FunctionImage(version) {
		return s.ports.address("function"), nil
	}
	return "", fmt.Errorf("nobody runs %s", image)
}

// RunFunction starts another version of the function, beside that of the stack. Stop ends the component by its name, and so
// does Down.
func (s *Stack) RunFunction(ctx context.Context, name, version, binary string) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	c := component{
		name: name, binary: binary, about: s.FunctionImage(version) + " on " + address,
		args:  []string{"--address=" + address, "--metrics-address=127.0.0.1:0", "--tls-certs-dir=" + s.FunctionCertificates()},
		ready: s.handshake(address),
	}
	if err := s.ensure(ctx, []component{c}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.functions[s.FunctionImage(version)] = address
	return nil
}

// freeAddress on the loopback.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // Closed at once; it only asks.
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// runProviderRevision once there is a Deployment, and the RBAC manager has let its ServiceAccount do its work.
func (s *Stack) runProviderRevision(ctx context.Context, client *kube.Client, p provider, revision string) error {
	deployment, err := client.Get(ctx, "deployments.apps", Namespace, revision)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || kube.ConditionOf(deployment, "Available").Status == "True" {
		return err
	}
	account, _, _ := unstructured.NestedString(deployment.Object, "spec", "template", "spec", "serviceAccountName")
	if bound, err := isBound(ctx, client, "crossplane:provider:"+revision+":system", account); err != nil || !bound {
		return err
	}
	// A new Deployment is another process, which may run as somebody else.
	if err := s.Stop(p.component); err != nil {
		return err
	}
	ca, err := loadAuthority(s.pki(control))
	if err != nil {
		return err
	}
	if err := ca.kubeconfig(s.kubeconfig(control, p.component), s.server(control), serviceAccountUser(account), serviceAccountGroups()...); err != nil {
		return err
	}
	if err := s.Start(ctx, p.component); err != nil {
		return err
	}
	return client.ApplyStatus(ctx, withStatus(deployment, map[string]any{"conditions": []any{isTrue("Available", "MinimumReplicasAvailable")}}))
}

// isBound says whether a ServiceAccount of Crossplane's namespace has a ClusterRole by a binding of the same name.
func isBound(ctx context.Context, client *kube.Client, role, account string) (bool, error) {
	_, err := client.Get(ctx, "clusterroles.rbac.authorization.k8s.io", "", role)
	binding, bindingErr := client.Get(ctx, "clusterrolebindings.rbac.authorization.k8s.io", "", role)
	if err := errors.Join(err, bindingErr); apierrors.IsNotFound(err) || apierrors.IsNotFound(bindingErr) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	return slices.ContainsFunc(subjects, func(o any) bool {
		subject, _ := o.(map[string]any)
		return subject["name"] == account && subject["namespace"] == Namespace
	}), nil
}

// withStatus is an object of the same name with nothing but a status.
func withStatus(o *unstructured.Unstructured, status map[string]any) *unstructured.Unstructured {
	only := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	only.SetGroupVersionKind(o.GroupVersionKind())
	only.SetNamespace(o.GetNamespace())
	only.SetName(o.GetName())
	return only
}

func isTrue(conditionType, reason string) map[string]any {
	return map[string]any{"type": conditionType, "status": "True", "reason": reason, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
}
