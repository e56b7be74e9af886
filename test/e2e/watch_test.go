package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/provisioner"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

// nodeCPU is what one node of a claim in these tests takes, in cpus.
const nodeCPU = 4

// A crowd is many claims with a common prefix to their names, and all that is seen of them: every event of every object,
// as the API servers send them.
type crowd struct {
	t      *testing.T
	prefix string
	// quota in cpus that their clusters share. Zero if it does not matter.
	quota int64

	mu         sync.Mutex
	events     int
	relists    int
	claims     map[string]*unstructured.Unstructured // by namespace/name
	composites map[string]*unstructured.Unstructured // by name
	releases   map[string]*unstructured.Unstructured // by cluster
	machines   map[string]map[string]bool            // by cluster
	maximum    int64
	over       int

	created, decided, ready map[string]time.Time // by claim
	released, deployed      map[string]time.Time // by cluster
}

// watchCrowd until the test ends.
func watchCrowd(t *testing.T, prefix string, quota int64, claimResource, compositeResource string) *crowd {
	t.Helper()
	c := &crowd{
		t: t, prefix: prefix, quota: quota,
		claims: map[string]*unstructured.Unstructured{}, composites: map[string]*unstructured.Unstructured{},
		releases: map[string]*unstructured.Unstructured{}, machines: map[string]map[string]bool{},
		created: map[string]time.Time{}, decided: map[string]time.Time{}, ready: map[string]time.Time{},
		released: map[string]time.Time{}, deployed: map[string]time.Time{},
	}
	admin, rancher := as(t, stack.Admin).client, infrastructure(t).client
	for _, w := range []struct {
		client   *kube.Client
		resource string
		see      func(o *unstructured.Unstructured, gone bool)
	}{
		{admin, claimResource, c.seeClaim},
		{admin, compositeResource, func(o *unstructured.Unstructured, gone bool) { put(c.composites, o.GetName(), o, gone) }},
		{admin, releases, c.seeRelease},
		{rancher, machines, c.seeMachine},
	} {
		api, err := w.client.Resource(w.resource, "")
		if err != nil {
			t.Fatal(err)
		}
		follow(t, api, func(o *unstructured.Unstructured, gone bool) {
			name := o.GetName()
			if w.resource == machines {
				name = o.GetLabels()[provisioner.LabelCluster]
			}
			if !strings.HasPrefix(name, prefix) {
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.events++
			w.see(o, gone)
			c.check(kube.Name(o))
		}, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.relists++
		})
	}
	return c
}

func put(in map[string]*unstructured.Unstructured, key string, o *unstructured.Unstructured, gone bool) {
	if gone {
		delete(in, key)
		return
	}
	in[key] = o
}

func (c *crowd) seeClaim(o *unstructured.Unstructured, gone bool) {
	key := o.GetNamespace() + "/" + o.GetName()
	put(c.claims, key, o, gone)
	switch kube.ConditionOf(o, "Admitted").Reason {
	case "Admitted", "QuotaExceeded", "NeverFits":
		first(c.decided, key)
	}
	if kube.ConditionOf(o, "Ready").Status == "True" {
		first(c.ready, key)
	}
}

func (c *crowd) seeRelease(o *unstructured.Unstructured, gone bool) {
	put(c.releases, o.GetName(), o, gone)
	first(c.released, o.GetName())
	if fieldOf(o, "status.atProvider.state") == "deployed" {
		first(c.deployed, o.GetName())
	}
}

func (c *crowd) seeMachine(o *unstructured.Unstructured, gone bool) {
	cluster := o.GetLabels()[provisioner.LabelCluster]
	if c.machines[cluster] == nil {
		c.machines[cluster] = map[string]bool{}
	}
	if gone {
		delete(c.machines[cluster], o.GetName())
		return
	}
	c.machines[cluster][o.GetName()] = true
}

func first(in map[string]time.Time, key string) {
	if _, ok := in[key]; !ok {
		in[key] = time.Now()
	}
}

// holds of a Release in cpus. One that was composed paused, and that the provider never acted on, holds nothing.
func holds(release *unstructured.Unstructured) (int64, error) {
	annotations := release.GetAnnotations()
	if annotations[v1alpha1.AnnotationPaused] == "true" && len(release.GetFinalizers()) == 0 && fieldOf(release, "status.atProvider.state") == "" {
		return 0, nil
	}
	var r v1alpha1.ClusterResources
	if err := json.Unmarshal([]byte(annotations[v1alpha1.AnnotationHolds]), &r); err != nil {
		return 0, fmt.Errorf("%s does not say what it holds: %w", kube.Name(release), err)
	}
	q, err := resource.ParseQuantity(string(r.CPU))
	return q.Value(), err
}

// held in cpus, altogether: of each cluster what its Release holds, or its machines still use, whichever is more.
func (c *crowd) held() (int64, error) {
	var errs []error
	byCluster := map[string]int64{}
	for cluster, machines := range c.machines {
		byCluster[cluster] = int64(len(machines)) * nodeCPU
	}
	for cluster, release := range c.releases {
		cpus, err := holds(release)
		errs = append(errs, err)
		byCluster[cluster] = max(byCluster[cluster], cpus)
	}
	var sum int64
	for _, cpus := range byCluster {
		sum += cpus
	}
	return sum, errors.Join(errs...)
}

// check after an event that what is held is within the quota.
func (c *crowd) check(event string) {
	if c.quota == 0 {
		return
	}
	sum, err := c.held()
	if err != nil {
		c.t.Error(err)
	}
	c.maximum = max(c.maximum, sum)
	const enough = 5
	if sum <= c.quota || c.over == enough {
		return
	}
	c.over++
	c.t.Errorf("after an event of %s, %d cpus are held of %d", event, sum, c.quota)
}

// submit claims as fast as the API server takes them.
func (c *crowd) submit(all []claim, as func(claim) (client *kube.Client, documents string)) {
	const clients = 8
	next := make(chan claim)
	var work sync.WaitGroup
	for range clients {
		work.Go(func() {
			for one := range next {
				client, documents := as(one)
				c.mu.Lock()
				c.created[one.team+"/"+one.name] = time.Now()
				c.mu.Unlock()
				if err := client.Apply(c.t.Context(), documents); err != nil {
					c.t.Errorf("cannot create claim %s: %v", one.name, err)
				}
			}
		})
	}
	for _, one := range all {
		next <- one
	}
	close(next)
	work.Wait()
}

// pass some events, or a while in which there are not so many.
func (c *crowd) pass(events int) {
	seen := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.events
	}
	for begun, end := seen(), time.Now().Add(10*time.Second); seen() < begun+events && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
}

// A delay of every claim from its creation to something that happened to it or to its cluster.
type delays []time.Duration

func (d delays) String() string {
	if len(d) == 0 {
		return "none"
	}
	const tail, all = 99, 100
	slices.Sort(d)
	p99 := d[min(len(d)-1, (len(d)*tail+all-1)/all-1)]
	return fmt.Sprintf("p50 %6.2f s, p99 %6.2f s, max %6.2f s of %d", d[(len(d)-1)/2].Seconds(), p99.Seconds(), d[len(d)-1].Seconds(), len(d))
}

// after their creation, claims had something happen to them.
func (c *crowd) after(happened map[string]time.Time) delays {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out delays
	for key, at := range happened {
		out = append(out, at.Sub(c.created[key]))
	}
	return out
}

// afterOf is after, of what happened to their clusters.
func (c *crowd) afterOf(happened map[string]time.Time) delays {
	c.mu.Lock()
	owner := map[string]string{}
	for key, claim := range c.claims {
		owner[fieldOf(claim, "spec.resourceRef.name")] = key
	}
	byClaim := map[string]time.Time{}
	for cluster, at := range happened {
		if key, ok := owner[cluster]; ok {
			byClaim[key] = at
		}
	}
	c.mu.Unlock()
	return c.after(byClaim)
}

// took is the time from the first creation to the last of what happened.
func (c *crowd) took(happened map[string]time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	begun := slices.MinFunc(slices.Collect(maps.Values(c.created)), time.Time.Compare)
	return slices.MaxFunc(slices.Collect(maps.Values(happened)), time.Time.Compare).Sub(begun)
}

// follow every event of a resource until the test ends: each change of each object, in the order in which the API server
// made them. A watch that ends is resumed where it was. If that has expired, the objects are listed again, and what has
// changed meanwhile is handed over as one event for each object.
func follow(t *testing.T, api dynamic.ResourceInterface, see func(o *unstructured.Unstructured, gone bool), relisted func()) {
	t.Helper()
	ctx := t.Context()
	known := map[string]*unstructured.Unstructured{}
	key := func(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }
	list := func() (string, error) {
		found, err := api.List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		gone := known
		known = map[string]*unstructured.Unstructured{}
		for i := range found.Items {
			o := &found.Items[i]
			known[key(o)] = o
			delete(gone, key(o))
			see(o, false)
		}
		for _, o := range gone {
			see(o, true)
		}
		return found.GetResourceVersion(), nil
	}
	version, err := list()
	if err != nil {
		t.Fatal(err)
	}
	background(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			w, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return api.Watch(ctx, o) },
			})
			if err != nil {
				t.Error(err)
				return
			}
			for e := range w.ResultChan() {
				if ctx.Err() != nil {
					return
				}
				o, ok := e.Object.(*unstructured.Unstructured)
				if !ok || e.Type == watch.Bookmark || e.Type == watch.Error {
					continue
				}
				put(known, key(o), o, e.Type == watch.Deleted)
				see(o, e.Type == watch.Deleted)
			}
			if ctx.Err() != nil {
				return
			}
			relisted()
			if version, err = list(); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
}

// background work until the test ends.
func background(t *testing.T, work func(context.Context)) {
	t.Helper()
	ctx, ended := t.Context(), make(chan struct{})
	go func() {
		defer close(ended)
		work(ctx)
	}()
	t.Cleanup(func() { <-ended })
}

// TestHeld looks at what the storm counts, without a control plane.
func TestHeld(t *testing.T) {
	release := func(paused, finalizer bool, state string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		annotations := map[string]string{v1alpha1.AnnotationHolds: `{"cpu":"8","memory":"16Gi","disk":"120Gi","nodes":2}`}
		if paused {
			annotations[v1alpha1.AnnotationPaused] = "true"
		}
		o.SetAnnotations(annotations)
		if finalizer {
			o.SetFinalizers([]string{"finalizer.managedresource.crossplane.io"})
		}
		if state != "" {
			o.Object["status"] = map[string]any{"atProvider": map[string]any{"state": state}}
		}
		return o
	}
	built := func(count int) map[string]bool {
		out := map[string]bool{}
		for i := range count {
			out[strconv.Itoa(i)] = true
		}
		return out
	}
	cases := map[string]struct {
		reason   string
		releases map[string]*unstructured.Unstructured
		machines map[string]map[string]bool
		want     int64
	}{
		"Release":       {"A Release holds what it says, before there are machines.", map[string]*unstructured.Unstructured{"a": release(false, false, "")}, nil, 8},
		"Paused":        {"One that the provider never acted on holds nothing.", map[string]*unstructured.Unstructured{"a": release(true, false, "")}, nil, 0},
		"PausedLater":   {"One that was paused afterwards does.", map[string]*unstructured.Unstructured{"a": release(true, true, "")}, nil, 8},
		"PausedDone":    {"So does one that was installed.", map[string]*unstructured.Unstructured{"a": release(true, false, "deployed")}, nil, 8},
		"MoreMachines":  {"Machines that are still there count.", map[string]*unstructured.Unstructured{"a": release(false, true, "")}, map[string]map[string]bool{"a": built(3)}, 12},
		"FewerMachines": {"Machines that are still to come count too.", map[string]*unstructured.Unstructured{"a": release(false, true, "")}, map[string]map[string]bool{"a": built(1)}, 8},
		"NoRelease":     {"Machines outlive their Release.", nil, map[string]map[string]bool{"a": built(2), "b": built(1)}, 12},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := (&crowd{releases: tc.releases, machines: tc.machines}).held()
			if err != nil || got != tc.want {
				t.Errorf("%s\nheld(): want %d, got %d, %v", tc.reason, tc.want, got, err)
			}
		})
	}
}
