package stack

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/provisioner"
	"github.com/rig-gateway/function-rig/hack/gomodule"
)

const (
	crdTimeout  = 30 * time.Second
	initTimeout = time.Minute
	xrdTimeout  = time.Minute

	// FunctionName is what the Compositions call the function.
	FunctionName = "rig-gateway-function-rig"

	crossplaneModule = "github.com/crossplane/crossplane/v2"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// installFoundation puts both API servers into the state in which Crossplane can start, and its providers unless they are
// packages.
func (s *Stack) installFoundation(ctx context.Context) error {
	steps := []func(context.Context) error{s.installInfra, s.installCrossplane}
	if s.options.Packages {
		steps = append(steps, s.publishAll)
	}
	failed := make(chan error, len(steps))
	for _, step := range steps {
		go func() { failed <- step(ctx) }()
	}
	var err error
	for range steps {
		err = errors.Join(err, <-failed)
	}
	return err
}

// installInfra gives the second API server what Rancher and Harvester serve.
func (s *Stack) installInfra(ctx context.Context) error {
	client, err := s.InfraClient()
	if err != nil {
		return err
	}
	served, err := provisioner.CRDs()
	if err != nil {
		return err
	}
	module, err := s.harvesterModule(ctx)
	if err != nil {
		return err
	}
	charts := filepath.Join(module.Dir, "deploy", "charts")
	images, err := os.ReadFile(filepath.Join(charts, "harvester-crd", "templates", "harvesterhci.io_virtualmachineimages.yaml"))
	if err != nil {
		return fmt.Errorf("cannot read Harvester's CRDs: %w", err)
	}
	if err := applyCRDs(ctx, client, served, string(images)); err != nil {
		return err
	}
	roles, err := render(filepath.Join(charts, "harvester"), "harvester-system", []string{"rbac.yaml"}, func(o *unstructured.Unstructured) bool {
		return o.GetName() == "harvesterhci.io:cloudprovider" || o.GetName() == "harvesterhci.io:csi-driver"
	})
	if err != nil {
		return err
	}
	objects, err := manifest("infra.yaml")
	if err != nil {
		return err
	}
	if err := client.ApplyObjects(ctx, append(roles, objects...)...); err != nil {
		return err
	}
	s.sayf("%-25s installed", "Rancher's and Harvester's API")
	return nil
}

// installCrossplane gives the control plane what Crossplane's chart would, and for providers that are no packages what the
// package manager would.
func (s *Stack) installCrossplane(ctx context.Context) error {
	client, err := s.Client(Admin)
	if err != nil {
		return err
	}
	for _, namespace := range append([]string{Namespace}, Teams()...) {
		if err := client.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}"); err != nil {
			return err
		}
	}
	core, err := s.moduleOf(ctx, "crossplane-core", crossplaneModule)
	if err != nil {
		return err
	}
	permissions, err := render(filepath.Join(core.Dir, "cluster", "charts", "crossplane"), Namespace, nil, func(o *unstructured.Unstructured) bool {
		return slices.Contains([]string{"ClusterRole", "ClusterRoleBinding", "ServiceAccount"}, o.GetKind())
	})
	if err != nil {
		return err
	}
	for _, o := range permissions {
		if o.GetKind() == "ServiceAccount" {
			o.SetNamespace(Namespace)
		}
	}
	if err := client.ApplyObjects(ctx, permissions...); err != nil {
		return err
	}
	if !s.options.Packages {
		for _, p := range providers() {
			if err := s.installProvider(ctx, client, p); err != nil {
				return err
			}
		}
	}
	// It fails while its own CRDs are not established, or its ClusterRole not aggregated. In a cluster its pod restarts.
	err = kube.Wait(ctx, initTimeout, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, s.binary("crossplane-core"), "core", "init", "--enable-webhooks=false")
		cmd.Env = append(s.crossplaneEnv(), "CRDS_PATH="+filepath.Join(core.Dir, "cluster", "crds"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot initialise Crossplane: %w", err)
	}
	if err := s.installWebhook(ctx, client, core); err != nil {
		return err
	}
	s.sayf("%-25s installed: CRDs, RBAC of its chart", "Crossplane "+core.Version)
	return nil
}

// installProvider does what the package manager would for a package of a provider: its CRDs, and the ClusterRoles that
// Crossplane's RBAC manager makes for a ProviderRevision.
func (s *Stack) installProvider(ctx context.Context, client *kube.Client, p provider) error {
	module, err := s.moduleOf(ctx, p.component, p.module)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(module.Dir, "package", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("cannot find the CRDs of %s in %s: %w", p.component, module.Dir, err)
	}
	var documents []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		documents = append(documents, string(raw))
	}
	if err := applyCRDs(ctx, client, documents...); err != nil {
		return err
	}
	crds, err := kube.Parse([]byte(strings.Join(documents, "\n---\n")))
	if err != nil {
		return err
	}
	objects, err := providerRoles(p.component, crds)
	if err != nil {
		return err
	}
	return client.ApplyObjects(ctx, objects...)
}

// providerRoles are the ClusterRoles edit, view and system of a provider, as in Crossplane's
// internal/controller/rbac/provider/roles, and the binding of system to the provider. Edit is aggregated to Crossplane's
// own ClusterRole: without it, Crossplane could not compose the provider's kinds.
func providerRoles(provider string, crds []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	resources := map[string][]string{}
	for _, crd := range crds {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		resources[group] = append(resources[group], plural, plural+"/status")
	}
	groups := slices.Sorted(maps.Keys(resources))
	rules := func(verbs ...string) []rbacv1.PolicyRule {
		var out []rbacv1.PolicyRule
		for _, group := range groups {
			out = append(out, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources[group], Verbs: verbs})
		}
		return out
	}
	system := append(rules("get", "list", "watch", "update", "patch", "create"),
		rbacv1.PolicyRule{APIGroups: groups, Resources: []string{"*/finalizers"}, Verbs: []string{"update"}},
		rbacv1.PolicyRule{
			APIGroups: []string{"", "coordination.k8s.io"}, Resources: []string{"secrets", "configmaps", "events", "leases"}, Verbs: []string{"*"},
		},
		rbacv1.PolicyRule{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "list", "watch"},
		})
	const aggregate = "rbac.crossplane.io/aggregate-to-"
	name := "crossplane:provider:" + provider
	objects := []*unstructured.Unstructured{}
	for _, role := range []struct {
		suffix string
		to     []string
		rules  []rbacv1.PolicyRule
	}{
		{"aggregate-to-edit", []string{"crossplane", "admin", "edit"}, rules("*")},
		{"aggregate-to-view", []string{"view"}, rules("get", "list", "watch")},
		{"system", nil, system},
	} {
		r := rbacv1.ClusterRole{Rules: role.rules}
		r.APIVersion, r.Kind, r.Name, r.Labels = rbacv1.SchemeGroupVersion.String(), "ClusterRole", name+":"+role.suffix, map[string]string{}
		for _, to := range role.to {
			r.Labels[aggregate+to] = "true"
		}
		plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&r)
		if err != nil {
			return nil, err
		}
		objects = append(objects, &unstructured.Unstructured{Object: plain})
	}
	return append(objects, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRoleBinding",
		"metadata": map[string]any{"name": name + ":system"},
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": name + ":system"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": Namespace, "name": provider}},
	}}), nil
}

// installProduct installs what a platform team does: the function, our APIs and the chart, unless they came as packages,
// credentials and RBAC.
func (s *Stack) installProduct(ctx context.Context) error {
	client, err := s.Client(Admin)
	if err != nil {
		return err
	}
	steps := []func(context.Context, *kube.Client) error{s.installCredentials, s.installTeams, s.awaitProduct}
	if !s.options.Packages {
		steps = append([]func(context.Context, *kube.Client) error{s.pushChart, s.registerFunction, s.installAPIs}, steps...)
	}
	for _, step := range steps {
		if err := step(ctx, client); err != nil {
			return err
		}
	}
	s.sayf("%-25s installed: function, XRDs, Compositions, ProviderConfigs, chart, RBAC of the teams", "function-rig")
	return nil
}

// installWebhook has the API server ask Crossplane before it deletes what a ClusterUsage protects. Crossplane's own
// initialiser names a Service, behind which there is nothing here.
func (s *Stack) installWebhook(ctx context.Context, client *kube.Client, core gomodule.Module) error {
	raw, err := os.ReadFile(filepath.Join(core.Dir, "cluster", "webhookconfigurations", "usage.yaml"))
	if err != nil {
		return fmt.Errorf("cannot read Crossplane's webhooks: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(s.pki(functions), "ca.crt"))
	if err != nil {
		return err
	}
	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	if err := yaml.Unmarshal(raw, configuration); err != nil {
		return fmt.Errorf("cannot read Crossplane's webhooks: %w", err)
	}
	for i := range configuration.Webhooks {
		c := &configuration.Webhooks[i].ClientConfig
		url := "https://" + s.ports.address("crossplane-webhook") + *c.Service.Path
		c.URL, c.Service, c.CABundle = &url, nil, ca
	}
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configuration)
	if err != nil {
		return err
	}
	return client.ApplyObjects(ctx, &unstructured.Unstructured{Object: plain})
}

func (s *Stack) registerFunction(ctx context.Context, client *kube.Client) error {
	return RegisterFunction(ctx, client, FunctionName, s.ports.address("function"))
}

// RegisterFunction tells Crossplane of a function that serves at an address, with a Function of this name and a
// FunctionRevision named by FunctionRevision.
func RegisterFunction(ctx context.Context, client *kube.Client, name, address string) error {
	raw, err := manifests.ReadFile("manifests/function.yaml")
	if err != nil {
		return err
	}
	if err := client.Apply(ctx, strings.ReplaceAll(string(raw), FunctionName, name)); err != nil {
		return err
	}
	return client.PatchStatus(ctx, "functionrevisions.pkg.crossplane.io", FunctionRevision(name), map[string]any{
		"endpoint": "dns:///" + address, "capabilities": []any{"composition"},
	})
}

// FunctionRevision is the name of the revision of a function.
func FunctionRevision(name string) string { return name + "-local" }

// installAPIs applies XRDs and Compositions. As a platform team would, it tells the function once, in the Composition of
// clusters, where the chart is.
func (s *Stack) installAPIs(ctx context.Context, client *kube.Client) error {
	for _, file := range []string{"definition.yaml", "composition.yaml"} {
		objects, err := s.read("apis", "*", file)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if kind, _, _ := unstructured.NestedString(o.Object, "spec", "compositeTypeRef", "kind"); kind == "XClusterBlueprint" {
				if err := withInput(o, map[string]any{
					"apiVersion": "fn.rig-gateway.io/v1beta1", "kind": "Input",
					"chart": map[string]any{"repository": s.ChartRepository(), "plainHTTP": true},
				}); err != nil {
					return err
				}
			}
		}
		if err := client.ApplyObjects(ctx, objects...); err != nil {
			return err
		}
	}
	return nil
}

// withInput sets the input of the first step of a Composition's pipeline.
func withInput(composition *unstructured.Unstructured, input map[string]any) error {
	pipeline, _, err := unstructured.NestedSlice(composition.Object, "spec", "pipeline")
	if err != nil || len(pipeline) == 0 {
		return fmt.Errorf("%s has no pipeline: %w", kube.Name(composition), err)
	}
	step, ok := pipeline[0].(map[string]any)
	if !ok {
		return fmt.Errorf("%s: spec.pipeline[0] is no map", kube.Name(composition))
	}
	step["input"] = input
	return unstructured.SetNestedSlice(composition.Object, pipeline, "spec", "pipeline")
}

// installCredentials applies the ProviderConfigs of the examples, and their Secrets.
func (s *Stack) installCredentials(ctx context.Context, client *kube.Client) error {
	for secret, user := range map[string]string{"rancher-kubeconfig": rancherUser, "harvester-fra-kubeconfig": harvesterUser} {
		kubeconfig, err := s.readKubeconfig(user)
		if err != nil {
			return err
		}
		if err := applySecret(ctx, client, secret, map[string]any{"kubeconfig": kubeconfig}); err != nil {
			return err
		}
	}
	configs, err := s.read("examples", "platform", "providerconfigs.yaml")
	if err != nil {
		return err
	}
	return client.ApplyObjects(ctx, configs...)
}

// applySecret of Crossplane's namespace, with text by key.
func applySecret(ctx context.Context, client *kube.Client, name string, text map[string]any) error {
	return client.ApplyObjects(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": Namespace}, "stringData": text,
	}})
}

// installTeams applies the RBAC of the examples, that of the app team once for each of Teams.
func (s *Stack) installTeams(ctx context.Context, client *kube.Client) error {
	platform, err := s.read("examples", "rbac", "platform-team.yaml")
	if err != nil {
		return err
	}
	if err := client.ApplyObjects(ctx, platform...); err != nil {
		return err
	}
	for _, team := range Teams() {
		objects, err := s.read("examples", "rbac", "app-team.yaml")
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := forTeam(o, team); err != nil {
				return err
			}
		}
		if err := client.ApplyObjects(ctx, objects...); err != nil {
			return err
		}
	}
	return nil
}

// forTeam turns an object of the example into that of another team.
func forTeam(o *unstructured.Unstructured, team string) error {
	if o.GetNamespace() == "" {
		return nil
	}
	o.SetNamespace(team)
	if o.GetKind() != "RoleBinding" {
		return nil
	}
	return unstructured.SetNestedSlice(o.Object, []any{
		map[string]any{"apiGroup": rbacv1.GroupName, "kind": "Group", "name": team},
	}, "subjects")
}

// AllowKubeconfigs lets a team read connection secrets of these names, and no others, as examples/rbac/app-team.yaml does.
func (s *Stack) AllowKubeconfigs(ctx context.Context, team string, names ...string) error {
	client, err := s.Client(Admin)
	if err != nil {
		return err
	}
	rules, err := json.Marshal([]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"get"}}})
	if err != nil {
		return err
	}
	return client.Patch(ctx, "roles.rbac.authorization.k8s.io", team, "rig-kubeconfigs", `{"rules":`+string(rules)+`}`)
}

// awaitProduct waits until claims can be made: Crossplane serves the XRDs, its RBAC manager has let it compose them, and
// the providers have seen their configurations.
func (s *Stack) awaitProduct(ctx context.Context, client *kube.Client) error {
	definitions, err := s.read("apis", "*", "definition.yaml")
	if err != nil {
		return err
	}
	for _, xrd := range definitions {
		conditions := []string{"Established"}
		if _, claimed, _ := unstructured.NestedMap(xrd.Object, "spec", "claimNames"); claimed {
			conditions = append(conditions, "Offered")
		}
		for _, condition := range conditions {
			if err := client.WaitCondition(ctx, xrdTimeout, "compositeresourcedefinitions.apiextensions.crossplane.io", "", xrd.GetName(), condition, "True"); err != nil {
				return err
			}
		}
		err := kube.Wait(ctx, xrdTimeout, func(ctx context.Context) error {
			_, err := client.Get(ctx, "clusterroles.rbac.authorization.k8s.io", "", "crossplane:composite:"+xrd.GetName()+":aggregate-to-crossplane")
			return err
		})
		if err != nil {
			return fmt.Errorf("Crossplane's RBAC manager has not seen %s: %w", xrd.GetName(), err) //nolint:staticcheck // A name.
		}
	}
	for _, resource := range []string{"providerconfigs.helm.crossplane.io", "providerconfigs.kubernetes.crossplane.io"} {
		err := kube.Wait(ctx, xrdTimeout, func(ctx context.Context) error {
			config, err := client.Get(ctx, resource, "", "rancher")
			if err != nil {
				return err
			}
			if len(config.GetFinalizers()) == 0 {
				return fmt.Errorf("%s has no finalizer", kube.Name(config))
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("the provider of %s is not at work: %w", resource, err)
		}
	}
	return nil
}

// read YAML files of the repository.
func (s *Stack) read(pattern ...string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(append([]string{s.root}, pattern...)...))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("cannot find %s: %w", filepath.Join(pattern...), err)
	}
	var out []*unstructured.Unstructured
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		objects, err := kube.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

func manifest(name string) ([]*unstructured.Unstructured, error) {
	raw, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		return nil, err
	}
	return kube.Parse(raw)
}

// applyCRDs and wait until they are established.
func applyCRDs(ctx context.Context, client *kube.Client, documents ...string) error {
	crds, err := kube.Parse([]byte(strings.Join(documents, "\n---\n")))
	if err != nil {
		return err
	}
	for _, crd := range crds {
		// Nothing here is a Service that could convert. Everybody uses the version that is stored.
		unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
	}
	if err := client.ApplyObjects(ctx, crds...); err != nil {
		return err
	}
	for _, crd := range crds {
		if err := client.WaitCondition(ctx, crdTimeout, "customresourcedefinitions.apiextensions.k8s.io", "", crd.GetName(), "Established", "True"); err != nil {
			return err
		}
	}
	return nil
}

// render templates of a chart with its default values, all of them if none are named, and keep some of the objects.
func render(dir, namespace string, templates []string, keep func(*unstructured.Unstructured) bool) ([]*unstructured.Unstructured, error) {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot load chart %s: %w", dir, err)
	}
	chart.SetDependencies()
	values, err := chartutil.ToRenderValues(chart, nil, chartutil.ReleaseOptions{Name: chart.Name(), Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare chart %s: %w", dir, err)
	}
	kept := chart.Templates[:0]
	for _, t := range chart.Templates {
		if name := filepath.Base(t.Name); len(templates) == 0 || slices.Contains(templates, name) || strings.HasPrefix(name, "_") {
			kept = append(kept, t)
		}
	}
	chart.Templates = kept
	rendered, err := engine.Render(chart, values)
	if err != nil {
		return nil, fmt.Errorf("cannot render chart %s: %w", dir, err)
	}
	var out []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		objects, err := kube.Parse([]byte(rendered[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, o := range objects {
			if keep(o) {
				out = append(out, o)
			}
		}
	}
	return out, nil
}
