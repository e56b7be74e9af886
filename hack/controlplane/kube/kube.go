// Package kube applies, reads and waits for objects of a Kubernetes API, as its users do: by YAML and by resource name.
package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	fieldOwner = "controlplane"

	// The local API server is the only one that a client talks to, and nothing else is waiting for it.
	queriesPerSecond = 200
	burst            = 400

	yamlBuffer = 4096

	// Pauses between checks grow: what takes long is looked at less often, since looking costs.
	minPause, maxPause, growth = 100 * time.Millisecond, time.Second, 4
)

// A Client talks to one API server as one user.
type Client struct {
	// Dynamic is for what the methods here do not do, such as watches.
	Dynamic dynamic.Interface

	discovery discovery.DiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
}

// New returns a client of the current context of a kubeconfig file.
func New(kubeconfig string) (*Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read kubeconfig: %w", err)
	}
	config.QPS, config.Burst = queriesPerSecond, burst
	// A warning about a deprecated version is for the terminal of a person.
	config.WarningHandler = rest.NoWarnings{}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot use kubeconfig %s: %w", kubeconfig, err)
	}
	k, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot use kubeconfig %s: %w", kubeconfig, err)
	}
	return &Client{Dynamic: d, discovery: k, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(k))}, nil
}

// Ready says whether the API server is.
func (c *Client) Ready(ctx context.Context) error {
	return c.discovery.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// Parse the objects of YAML documents.
func Parse(documents []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(documents), yamlBuffer)
	for {
		var document runtime.RawExtension
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("cannot parse YAML: %w", err)
		}
		object := &unstructured.Unstructured{}
		// Unlike Go's own decoder, this one keeps whole numbers whole.
		if err := utiljson.Unmarshal(document.Raw, &object.Object); len(document.Raw) > 0 && err != nil {
			return nil, fmt.Errorf("cannot parse YAML: %w", err)
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
}

// Apply YAML documents with server-side apply, as an owner that wins conflicts.
func (c *Client) Apply(ctx context.Context, documents string) error {
	objects, err := Parse([]byte(documents))
	if err != nil {
		return err
	}
	return c.ApplyObjects(ctx, objects...)
}

// ApplyObjects in their order.
func (c *Client) ApplyObjects(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		resource, err := c.resourceOf(object)
		if err != nil {
			return err
		}
		options := metav1.ApplyOptions{FieldManager: fieldOwner, Force: true}
		if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil {
			return fmt.Errorf("cannot apply %s: %w", Name(object), err)
		}
	}
	return nil
}

// ApplyStatus applies the status of an object, as ApplyObjects does the rest. Lists of conditions are merged by type.
func (c *Client) ApplyStatus(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := c.resourceOf(object)
	if err != nil {
		return err
	}
	if _, err := resource.ApplyStatus(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldOwner, Force: true}); err != nil {
		return fmt.Errorf("cannot apply the status of %s: %w", Name(object), err)
	}
	return nil
}

// PatchStatus merges a status into that of an object.
func (c *Client) PatchStatus(ctx context.Context, resource, name string, status map[string]any) error {
	r, err := c.Resource(resource, "")
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("cannot encode status: %w", err)
	}
	if _, err := r.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldOwner}, "status"); err != nil {
		return fmt.Errorf("cannot patch the status of %s %s: %w", resource, name, err)
	}
	return nil
}

// Patch an object with a JSON merge patch.
func (c *Client) Patch(ctx context.Context, resource, namespace, name, patch string) error {
	r, err := c.Resource(resource, namespace)
	if err != nil {
		return err
	}
	if _, err := r.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: fieldOwner}); err != nil {
		return fmt.Errorf("cannot patch %s %s: %w", resource, name, err)
	}
	return nil
}

// Get an object. A resource is written as for kubectl: secrets, clusterblueprints.rig-gateway.io. The namespace is empty
// for an object of the cluster.
func (c *Client) Get(ctx context.Context, resource, namespace, name string) (*unstructured.Unstructured, error) {
	r, err := c.Resource(resource, namespace)
	if err != nil {
		return nil, err
	}
	return r.Get(ctx, name, metav1.GetOptions{})
}

// List the objects with the labels that a selector asks for, of all namespaces if none is given.
func (c *Client) List(ctx context.Context, resource, namespace, selector string) ([]unstructured.Unstructured, error) {
	r, err := c.Resource(resource, namespace)
	if err != nil {
		return nil, err
	}
	list, err := r.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("cannot list %s: %w", resource, err)
	}
	return list.Items, nil
}

// Delete an object.
func (c *Client) Delete(ctx context.Context, resource, namespace, name string) error {
	r, err := c.Resource(resource, namespace)
	if err != nil {
		return err
	}
	return r.Delete(ctx, name, metav1.DeleteOptions{})
}

// Resource by name, in one namespace or in all.
func (c *Client) Resource(resource, namespace string) (dynamic.ResourceInterface, error) {
	gvr, err := find(c, func() (schema.GroupVersionResource, error) {
		return c.mapper.ResourceFor(schema.ParseGroupResource(resource).WithVersion(""))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot find resource %s: %w", resource, err)
	}
	if namespace == "" {
		return c.Dynamic.Resource(gvr), nil
	}
	return c.Dynamic.Resource(gvr).Namespace(namespace), nil
}

// find something in what is known of the server's resources. What is not found may have come since they were asked for.
func find[T any](c *Client, look func() (T, error)) (T, error) {
	found, err := look()
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		found, err = look()
	}
	return found, err
}

// Name of an object for a message: Kind namespace/name.
func Name(object *unstructured.Unstructured) string {
	name := object.GetName()
	if namespace := object.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return object.GetKind() + " " + name
}

// A Condition of an object's status.
type Condition struct {
	Status, Reason, Message string
}

func (c Condition) String() string {
	return strings.TrimRight(fmt.Sprintf("%s (%s) %s", c.Status, c.Reason, c.Message), " ")
}

// ConditionOf an object. A missing condition is empty.
func ConditionOf(object *unstructured.Unstructured, conditionType string) Condition {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range all {
		c, _ := one.(map[string]any)
		if c["type"] != conditionType {
			continue
		}
		status, _ := c["status"].(string)
		reason, _ := c["reason"].(string)
		message, _ := c["message"].(string)
		return Condition{Status: status, Reason: reason, Message: message}
	}
	return Condition{}
}

// Wait until check returns nil, and return its last error when the time is over.
func Wait(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := minPause; ; pause = min(pause+pause/growth, maxPause) {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", limit, err)
		case <-time.After(pause):
		}
	}
}

// WaitCondition waits until a condition of an object has the status.
func (c *Client) WaitCondition(ctx context.Context, limit time.Duration, resource, namespace, name, conditionType, status string) error {
	return Wait(ctx, limit, func(ctx context.Context) error {
		object, err := c.Get(ctx, resource, namespace, name)
		if err != nil {
			return err
		}
		if is := ConditionOf(object, conditionType); is.Status != status {
			return fmt.Errorf("%s: %s is %s", Name(object), conditionType, is)
		}
		return nil
	})
}

func (c *Client) resourceOf(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := find(c, func() (*meta.RESTMapping, error) { return c.mapper.RESTMapping(kind.GroupKind(), kind.Version) })
	if err != nil {
		return nil, fmt.Errorf("cannot find the resource of %s: %w", Name(object), err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.Dynamic.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return c.Dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}
