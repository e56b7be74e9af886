package provisioner

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Annotations on a Cluster that change how it is built, for tests.
const (
	// AnnotationCreateDelay and AnnotationDeleteDelay are how long one machine takes, such as 5s.
	AnnotationCreateDelay = "provisioner.rig-gateway.io/create-delay"
	AnnotationDeleteDelay = "provisioner.rig-gateway.io/delete-delay"
	// AnnotationError is what the provider reports instead of building machines.
	AnnotationError = "provisioner.rig-gateway.io/error"
)

// Labels of a Machine, as Rancher and Cluster API set them.
const (
	LabelCluster = "cluster.x-k8s.io/cluster-name"
	LabelPool    = "rke.cattle.io/rke-machine-pool-name"

	annotationConfig      = "rke.cattle.io/machine-config"
	annotationClusterName = "provisioning.cattle.io/management-cluster-name"
	clusterFinalizer      = "wrangler.cattle.io/provisioning-cluster-remove"
	machineFinalizer      = "machine.cluster.x-k8s.io"

	tick = 200 * time.Millisecond
)

var (
	clusters = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"}                                              //nolint:gochecknoglobals // A constant that Go cannot express as one.
	machines = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machines"}                                               //nolint:gochecknoglobals // A constant that Go cannot express as one.
	secrets  = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}                                                                                //nolint:gochecknoglobals // A constant that Go cannot express as one.
	configs  = map[string]string{"HarvesterConfig": "harvesterconfigs", "VmwarevsphereConfig": "vmwarevsphereconfigs", "Amazonec2Config": "amazonec2configs"} //nolint:gochecknoglobals // A constant that Go cannot express as one.
)

// configResource is the resource of a kind of machine config.
func configResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "rke-machine-config.cattle.io", Version: "v1", Resource: plural}
}

// Options of a provisioner.
type Options struct {
	// Client of the API server that serves Rancher's kinds.
	Client dynamic.Interface
	// Address of the endpoint /readyz.
	Address string
	// CreateDelay and DeleteDelay are how long one machine takes unless its cluster says otherwise.
	CreateDelay, DeleteDelay time.Duration
	Log                      *slog.Logger
}

// Run until the context ends.
func Run(ctx context.Context, o Options) error {
	r := &runner{Options: o, listers: map[schema.GroupVersionResource]informers.GenericInformer{}}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(o.Client, 0)
	watched := []schema.GroupVersionResource{clusters, machines}
	for _, kind := range slices.Sorted(maps.Keys(configs)) {
		watched = append(watched, configResource(configs[kind]))
	}
	for _, resource := range watched {
		r.listers[resource] = factory.ForResource(resource)
		r.listers[resource].Informer()
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Addr: o.Address, Handler: mux, ReadHeaderTimeout: time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	defer server.Close() //nolint:errcheck // The process ends.

	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("cannot serve %s: %w", o.Address, err)
		case <-time.After(tick):
			r.all(ctx)
		}
	}
}

type runner struct {
	Options

	listers map[schema.GroupVersionResource]informers.GenericInformer
}

// all clusters make one step. What fails is tried again in the next tick; conflicts and duplicates only mean that the
// cache lags.
func (r *runner) all(ctx context.Context) {
	found, err := r.listers[clusters].Lister().List(labels.Everything())
	if err != nil {
		r.Log.Error("cannot list clusters", "error", err)
		return
	}
	for _, one := range found {
		cluster, ok := one.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		if err := r.step(ctx, cluster.DeepCopy()); err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			r.Log.Error("cannot reconcile cluster", "cluster", cluster.GetName(), "error", err)
		}
	}
}

func (r *runner) step(ctx context.Context, live *unstructured.Unstructured) error {
	api := r.Client.Resource(clusters).Namespace(live.GetNamespace())
	if live.GetDeletionTimestamp() == nil && !slices.Contains(live.GetFinalizers(), clusterFinalizer) {
		live.SetFinalizers(append(live.GetFinalizers(), clusterFinalizer))
		_, err := api.Update(ctx, live, metav1.UpdateOptions{})
		return err
	}
	cluster, err := r.read(live)
	if err != nil {
		return err
	}
	found, err := r.listers[machines].Lister().ByNamespace(live.GetNamespace()).List(labels.SelectorFromSet(labels.Set{LabelCluster: live.GetName()}))
	if err != nil {
		return err
	}
	byName, all := map[string]*unstructured.Unstructured{}, []Machine{}
	for _, one := range found {
		if m, ok := one.(*unstructured.Unstructured); ok {
			byName[m.GetName()] = m.DeepCopy()
			all = append(all, readMachine(m))
		}
	}
	plan := Next(cluster, all, time.Now())
	errs := []error{r.own(ctx, live, cluster), r.machines(ctx, live, cluster, plan, byName)}
	if plan.Release && slices.Contains(live.GetFinalizers(), clusterFinalizer) {
		live.SetFinalizers(slices.DeleteFunc(live.GetFinalizers(), func(f string) bool { return f == clusterFinalizer }))
		_, err := api.Update(ctx, live, metav1.UpdateOptions{})
		return first(append(errs, err))
	}
	if plan.Status.Ready && !cluster.Ready {
		// Whoever sees that the cluster is ready finds its kubeconfig.
		if err := r.kubeconfig(ctx, live, plan.Status); err != nil {
			return first(append(errs, err))
		}
	}
	before, _, _ := unstructured.NestedMap(live.Object, "status")
	status := writeStatus(before, plan.Status)
	if !reflect.DeepEqual(before, status) {
		live.Object["status"] = status
		_, err := api.UpdateStatus(ctx, live, metav1.UpdateOptions{})
		errs = append(errs, err)
		r.Log.Info("cluster", "name", live.GetName(), "ready", plan.Status.Ready, "updated", plan.Status.Conditions[1])
	}
	return first(errs)
}

// first error, as it is: callers ask for its reason.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// read what matters of a live cluster.
func (r *runner) read(live *unstructured.Unstructured) (Cluster, error) {
	c := Cluster{
		Namespace: live.GetNamespace(), Name: live.GetName(), UID: string(live.GetUID()), Generation: live.GetGeneration(),
		Deleting: live.GetDeletionTimestamp() != nil, Error: live.GetAnnotations()[AnnotationError],
		CreateDelay: r.CreateDelay, DeleteDelay: r.DeleteDelay,
	}
	c.Ready, _, _ = unstructured.NestedBool(live.Object, "status", "ready")
	c.ClusterName, _, _ = unstructured.NestedString(live.Object, "status", "clusterName")
	if c.ClusterName == "" {
		c.ClusterName = live.GetAnnotations()[annotationClusterName]
	}
	for annotation, delay := range map[string]*time.Duration{AnnotationCreateDelay: &c.CreateDelay, AnnotationDeleteDelay: &c.DeleteDelay} {
		if written := live.GetAnnotations()[annotation]; written != "" {
			parsed, err := time.ParseDuration(written)
			if err != nil {
				return c, fmt.Errorf("annotation %s: %w", annotation, err)
			}
			*delay = parsed
		}
	}
	pools, _, _ := unstructured.NestedSlice(live.Object, "spec", "rkeConfig", "machinePools")
	for _, one := range pools {
		in, _ := one.(map[string]any)
		p := Pool{}
		p.Name, _, _ = unstructured.NestedString(in, "name")
		p.ConfigKind, _, _ = unstructured.NestedString(in, "machineConfigRef", "kind")
		p.Config, _, _ = unstructured.NestedString(in, "machineConfigRef", "name")
		p.Etcd, _, _ = unstructured.NestedBool(in, "etcdRole")
		p.ControlPlane, _, _ = unstructured.NestedBool(in, "controlPlaneRole")
		p.Worker, _, _ = unstructured.NestedBool(in, "workerRole")
		quantity, _, _ := unstructured.NestedInt64(in, "quantity")
		p.Quantity = int(quantity)
		p.Missing = r.config(live.GetNamespace(), p) == nil
		c.Pools = append(c.Pools, p)
	}
	return c, nil
}

// config of a pool, nil if there is none.
func (r *runner) config(namespace string, p Pool) *unstructured.Unstructured {
	lister, ok := r.listers[configResource(configs[p.ConfigKind])]
	if !ok {
		return nil
	}
	found, err := lister.Lister().ByNamespace(namespace).Get(p.Config)
	if err != nil {
		return nil
	}
	config, _ := found.(*unstructured.Unstructured)
	return config
}

func readMachine(live *unstructured.Unstructured) Machine {
	m := Machine{
		Name: live.GetName(), Pool: live.GetLabels()[LabelPool], Config: live.GetAnnotations()[annotationConfig],
		Created: live.GetCreationTimestamp().Time,
	}
	if deleted := live.GetDeletionTimestamp(); deleted != nil {
		m.Deleted = deleted.Time
	}
	m.Phase, _, _ = unstructured.NestedString(live.Object, "status", "phase")
	return m
}

// own the machine configs, as Rancher does: they are removed with their cluster.
func (r *runner) own(ctx context.Context, live *unstructured.Unstructured, c Cluster) error {
	for _, p := range c.Pools {
		config := r.config(c.Namespace, p)
		if config == nil || c.Deleting || metav1.IsControlledBy(config, live) {
			continue
		}
		if owner := metav1.GetControllerOf(config); owner != nil {
			return fmt.Errorf("%s %s belongs to %s %s", p.ConfigKind, p.Config, owner.Kind, owner.Name)
		}
		config = config.DeepCopy()
		config.SetOwnerReferences([]metav1.OwnerReference{owner(live)})
		if _, err := r.Client.Resource(configResource(configs[p.ConfigKind])).Namespace(c.Namespace).Update(ctx, config, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func owner(live *unstructured.Unstructured) metav1.OwnerReference {
	return *metav1.NewControllerRef(live, live.GroupVersionKind())
}

// machines are created, marked, deleted and let go.
func (r *runner) machines(ctx context.Context, live *unstructured.Unstructured, c Cluster, plan Plan, byName map[string]*unstructured.Unstructured) error {
	api := r.Client.Resource(machines).Namespace(c.Namespace)
	var errs []error
	for _, m := range plan.Create {
		_, err := api.Create(ctx, newMachine(live, c, m), metav1.CreateOptions{})
		errs = append(errs, err)
	}
	for _, name := range plan.Delete {
		errs = append(errs, api.Delete(ctx, name, metav1.DeleteOptions{}))
	}
	for _, name := range plan.Gone {
		machine := byName[name]
		machine.SetFinalizers(nil)
		_, err := api.Update(ctx, machine, metav1.UpdateOptions{})
		errs = append(errs, err)
	}
	for _, name := range slices.Sorted(maps.Keys(plan.Phases)) {
		machine := byName[name]
		if phase, _, _ := unstructured.NestedString(machine.Object, "status", "phase"); phase == plan.Phases[name] {
			continue
		}
		machine.Object["status"] = map[string]any{"phase": plan.Phases[name]}
		_, err := api.UpdateStatus(ctx, machine, metav1.UpdateOptions{})
		errs = append(errs, err)
	}
	return first(errs)
}

func newMachine(live *unstructured.Unstructured, c Cluster, m Machine) *unstructured.Unstructured {
	pool := c.Pools[slices.IndexFunc(c.Pools, func(p Pool) bool { return p.Name == m.Pool })]
	roles := map[string]any{LabelCluster: c.Name, LabelPool: m.Pool}
	for role, has := range map[string]bool{"etcd": pool.Etcd, "control-plane": pool.ControlPlane, "worker": pool.Worker} {
		if has {
			roles["rke.cattle.io/"+role+"-role"] = "true"
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": machines.GroupVersion().String(),
		"kind":       "Machine",
		"metadata": map[string]any{
			"name": m.Name, "namespace": c.Namespace, "labels": roles,
			"annotations": map[string]any{annotationConfig: m.Config},
			"finalizers":  []any{machineFinalizer},
			"ownerReferences": []any{map[string]any{
				"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(), "name": live.GetName(), "uid": string(live.GetUID()), "controller": true,
			}},
		},
		"spec": map[string]any{
			"clusterName": c.Name,
			"bootstrap":   map[string]any{},
			"infrastructureRef": map[string]any{
				"apiVersion": "rke-machine.cattle.io/v1", "kind": strings.TrimSuffix(pool.ConfigKind, "Config") + "Machine", "name": m.Name, "namespace": c.Namespace,
			},
		},
	}}
}

// kubeconfig Secret of a cluster that has been ready once.
func (r *runner) kubeconfig(ctx context.Context, live *unstructured.Unstructured, s Status) error {
	api := r.Client.Resource(secrets).Namespace(live.GetNamespace())
	if _, err := api.Get(ctx, s.ClientSecretName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[live.GetName()] = &clientcmdapi.Cluster{Server: "https://rancher.example.org/k8s/clusters/" + s.ClusterName}
	config.AuthInfos[live.GetName()] = &clientcmdapi.AuthInfo{Token: "kubeconfig-user:" + digest(string(live.GetUID()), "token")}
	config.Contexts[live.GetName()] = &clientcmdapi.Context{Cluster: live.GetName(), AuthInfo: live.GetName()}
	config.CurrentContext = live.GetName()
	raw, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("cannot write kubeconfig: %w", err)
	}
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": map[string]any{"name": s.ClientSecretName, "namespace": live.GetNamespace()},
		"data":     map[string]any{"value": base64.StdEncoding.EncodeToString(raw)},
	}}
	secret.SetOwnerReferences([]metav1.OwnerReference{owner(live)})
	_, err = api.Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// writeStatus over the one before. A condition keeps its time while it stays the same.
func writeStatus(before map[string]any, s Status) map[string]any {
	var conditions []any
	written := map[string]bool{}
	old, _ := before["conditions"].([]any)
	for _, c := range s.Conditions {
		next := map[string]any{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message}
		at := slices.IndexFunc(old, func(o any) bool {
			was, _ := o.(map[string]any)
			return was["type"] == c.Type && was["status"] == c.Status && was["reason"] == c.Reason && was["message"] == c.Message
		})
		if at >= 0 {
			next, _ = old[at].(map[string]any)
		} else {
			next["lastUpdateTime"] = time.Now().UTC().Format(time.RFC3339)
		}
		conditions, written[c.Type] = append(conditions, next), true
	}
	for _, o := range old {
		was, _ := o.(map[string]any)
		if conditionType, _ := was["type"].(string); !written[conditionType] {
			conditions = append(conditions, was)
		}
	}
	return map[string]any{
		"ready": s.Ready, "observedGeneration": s.ObservedGeneration, "clusterName": s.ClusterName,
		"clientSecretName": s.ClientSecretName, "conditions": conditions,
	}
}
