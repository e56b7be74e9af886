package harvester

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/size"
)

// What Harvester and Rancher know a namespace's quota by. The annotation is the source of it, the ResourceQuota with the
// label is what enforces it; Harvester looks at it only where both are there (harvester pkg/util/resourcequota; rancher
// pkg/controllers/managementuser/resourcequota).
const (
	annotationQuota = "field.cattle.io/resourceQuota"
	labelQuota      = "resourcequota.management.cattle.io/default-resource-quota"
	// annotationStatus has the conditions that Rancher sets on the namespaces of clusters that it manages.
	annotationStatus = "cattle.io/status"
	conditionInit    = "ResourceQuotaInit"
	conditionQuota   = "ResourceQuotaValidated"
	// prefixMigrating begins the annotations with which Harvester marks a ResourceQuota that it has raised for the time of a
	// live migration.
	prefixMigrating = "harvesterhci.io/migrating"
)

// Other pods that a namespace's quota counts, as in KubeVirt 1.5: the log of a machine's serial console, and the pod that
// attaches a volume of a workload.
const (
	consoleCPU       = 15         // milli-cpus
	consoleMemory    = 60_000_000 // bytes
	attachmentCPU    = 100        // milli-cpus
	attachmentMemory = 80_000_000 // bytes
)

// Keys of the limits in the annotation, and the names that a ResourceQuota has for them.
var limitNames = map[string]string{ //nolint:gochecknoglobals // A constant that Go cannot express as one.
	"limitsCpu": "limits.cpu", "limitsMemory": "limits.memory", "requestsStorage": "requests.storage",
}

// Headroom is room for the largest machine, once for each migration and for each machine of a surge; for the console log of
// every machine; and for the volumes of workloads and the pods that attach them. A machine has a vCPU and 1 GiB at least,
// which says how many the quota has room for. The hypervisor's overhead is in what a machine takes already.
func (s *strategy) Headroom(d strategies.Demand) ledger.Resources {
	machines := min(d.Quota[ledger.Nodes], d.Quota[ledger.CPU]/size.Millicpus, d.Quota[ledger.Memory]/size.Gibibyte)
	machines = max(machines, d.Reserved[ledger.Nodes]) + d.Migrations + d.Surge
	room := d.Largest.Times(d.Migrations)
	room[ledger.Disk] = 0
	room = room.Plus(d.Largest.Times(d.Surge)).
		Plus(ledger.Resources{ledger.CPU: consoleCPU, ledger.Memory: consoleMemory}.Times(machines)).
		Plus(ledger.Resources{ledger.CPU: attachmentCPU, ledger.Memory: attachmentMemory}.Times(d.Volumes)).
		Plus(ledger.Resources{ledger.Disk: d.VolumesDisk})
	headroom := ledger.NoLimits()
	headroom[ledger.CPU], headroom[ledger.Memory] = room[ledger.CPU], room[ledger.Memory]
	if d.Disk {
		headroom[ledger.Disk] = room[ledger.Disk]
	}
	return headroom
}

// Backstop is the quota of the blueprint's namespace: Rancher's annotation on it and, where no Rancher manages the namespace
// and makes it of the annotation, the ResourceQuota. Namespaces that are not the blueprint's any more lose theirs.
//
// The namespace is never created, deleted or owned: an Object only observes it, except for as long as the annotation has to
// change. Nor is a ResourceQuota held on to: Harvester raises it while it migrates a machine, and that is left alone.
func (s *strategy) Backstop(scope strategies.BackstopScope) (strategies.BackstopOutput, error) {
	out := strategies.BackstopOutput{Resources: map[string]strategies.Resource{}}
	wanted := ""
	if scope.Limit != nil {
		config, missing := strategies.InfrastructureProviderConfig(scope.Infra, reachesHarvester)
		if missing != nil {
			return out, missing
		}
		n := namespace{scope: scope, name: s.spec.VMNamespace, config: config, limits: limits(*scope.Limit)}
		wanted = n.read()
		out.Resources[wanted] = n.object()
		if n.seen() && n.other() == "" && !n.rancher() {
			out.Resources[scope.ComposedName("ResourceQuota", n.name)] = n.resourceQuota()
		}
		out.Pending, out.Missing = n.state()
	}
	for composed, observed := range scope.Observed {
		manifest := observed.Map("spec", "forProvider", "manifest")
		if composed == wanted || manifest.Text("kind") != "Namespace" {
			continue
		}
		n := namespace{scope: scope, name: manifest.Text("metadata", "name"), config: observed.Text("spec", "providerConfigRef", "name")}
		if n.read(); n.holder.InfraBlueprint == scope.Name && !strings.Contains(observed.Failure(), notThere) {
			out.Resources[composed] = n.object()
		}
	}
	return out, nil
}

// notThere is how an API server refuses to make what an apply with a uid does not find.
const notThere = "no existing object was found"

// holder of a namespace's backstop, which an annotation of our own records, and the limits that it set.
type holder struct {
	InfraBlueprint string            `json:"infraBlueprint,omitempty"`
	Limit          map[string]string `json:"limit,omitempty"`
}

// namespace with a quota.
type namespace struct {
	scope        strategies.BackstopScope
	name, config string
	// limits to set, by their key in the annotation; none to give the backstop up.
	limits map[string]string

	// What is seen of it: the Object, the namespace, and who holds the backstop.
	observed, live strategies.Resource
	holder         holder
	// quota is the content of Rancher's annotation.
	quota map[string]any
}

// read what is seen of the namespace. It returns the composed name of its Object.
func (n *namespace) read() string {
	composed := n.scope.ComposedName("Namespace", n.name)
	n.observed = n.scope.Observed[composed]
	n.live = n.observed.Map("status", "atProvider", "manifest")
	// What cannot be read is replaced.
	_ = json.Unmarshal([]byte(n.annotation(v1alpha1.AnnotationBackstop)), &n.holder)
	_ = json.Unmarshal([]byte(n.annotation(annotationQuota)), &n.quota)
	return composed
}

func (n *namespace) annotation(name string) string {
	return n.live.Text("metadata", "annotations", name)
}

func (n *namespace) seen() bool { return n.live.Text("kind") != "" }

// other InfraBlueprint that limits the namespace already, empty where there is none.
func (n *namespace) other() string {
	if n.holder.InfraBlueprint == n.scope.Name {
		return ""
	}
	return n.holder.InfraBlueprint
}

// holds says whether the live namespace has the limits.
func (n *namespace) holds() bool {
	live, _ := n.quota["limit"].(map[string]any)
	return n.holder.InfraBlueprint == n.scope.Name && maps.Equal(n.holder.Limit, n.limits) && includes(live, n.limits)
}

// object that observes the namespace, and changes its annotations only where they differ from what is wanted. The uid keeps
// a namespace that is gone from being made again by the apply.
func (n *namespace) object() strategies.Resource {
	policies, manifest := []any{"Observe"}, strategies.Prerequisite{APIVersion: "v1", Kind: "Namespace", Name: n.name}.Manifest()
	if n.seen() && n.other() == "" && !n.holds() {
		policies = append(policies, "Update")
		manifest["metadata"] = map[string]any{"name": n.name, "uid": n.live.Text("metadata", "uid"), "annotations": n.annotations()}
	}
	return n.scope.Resource(objectAPIVersion, "Object", n.scope.ComposedName("Namespace", n.name), nil, n.spec(policies, manifest))
}

// annotations with the limits, beside those that others have set. An annotation without limits is read as no quota by
// Harvester and Rancher alike. Without ours, the apply removes the record of it.
func (n *namespace) annotations() map[string]any {
	limit := map[string]any{}
	live, _ := n.quota["limit"].(map[string]any)
	for key, value := range live {
		if _, ours := n.holder.Limit[key]; !ours {
			limit[key] = value
		}
	}
	for key, value := range n.limits {
		limit[key] = value
	}
	out := map[string]any{annotationQuota: encode(map[string]any{"limit": limit})}
	if len(n.limits) > 0 {
		out[v1alpha1.AnnotationBackstop] = encode(holder{InfraBlueprint: n.scope.Name, Limit: n.limits})
	}
	return out
}

// resourceQuota that Harvester reads. It is made and deleted, and changed where it differs from what is wanted while no
// machine migrates. As soon as it does not, it may be raised by Harvester without being put back.
func (n *namespace) resourceQuota() strategies.Resource {
	hard := map[string]any{}
	for name, value := range n.hard() {
		hard[name] = value
	}
	policies := []any{"Observe", "Create", "Delete"}
	if live := n.liveQuota(); live != nil && !n.kept(live) {
		policies = append(policies, "Update")
	}
	return n.scope.Resource(objectAPIVersion, "Object", n.scope.ComposedName("ResourceQuota", n.name), nil, n.spec(policies, map[string]any{
		"apiVersion": "v1",
		"kind":       "ResourceQuota",
		"metadata":   map[string]any{"name": "rig-" + n.scope.Name, "namespace": n.name, "labels": map[string]any{labelQuota: "true"}},
		"spec":       map[string]any{"hard": hard},
	}))
}

func (n *namespace) spec(policies []any, manifest map[string]any) map[string]any {
	return map[string]any{
		"managementPolicies": policies,
		"providerConfigRef":  map[string]any{"name": n.config},
		"forProvider":        map[string]any{"manifest": manifest},
	}
}

func (n *namespace) quotaObject() strategies.Resource {
	return n.scope.Observed[n.scope.ComposedName("ResourceQuota", n.name)]
}

// liveQuota is the ResourceQuota as it is seen, nil where it is not.
func (n *namespace) liveQuota() strategies.Resource {
	return n.quotaObject().Map("status", "atProvider", "manifest")
}

// kept says whether a ResourceQuota has the limits and no others, or is raised for a live migration.
func (n *namespace) kept(quota strategies.Resource) bool {
	for name := range quota.Map("metadata", "annotations") {
		if strings.HasPrefix(name, prefixMigrating) {
			return true
		}
	}
	hard := quota.Map("spec", "hard")
	return len(hard) == len(n.limits) && includes(hard, n.hard())
}

// rancher says whether a Rancher manages the quotas of the namespace. It then makes the ResourceQuota of the annotation
// where the namespace's project has a quota, and takes both away where it has none.
func (n *namespace) rancher() bool { return n.rancherSays(conditionInit) != "" }

// rancherSays the status of a condition of the namespace, empty where there is none.
func (n *namespace) rancherSays(conditionType string) string {
	var status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	}
	_ = json.Unmarshal([]byte(n.annotation(annotationStatus)), &status)
	for _, c := range status.Conditions {
		if c.Type == conditionType {
			return c.Status
		}
	}
	return ""
}

// state of the backstop at Harvester.
func (n *namespace) state() (pending, missing string) {
	switch {
	case n.observed.Failure() != "":
		return "", fmt.Sprintf("namespace %q: %s", n.name, n.observed.Failure())
	case !n.seen():
		return fmt.Sprintf("looking up namespace %q", n.name), ""
	case n.other() != "":
		return "", fmt.Sprintf("namespace %q: InfraBlueprint %q limits it already; of those that share a namespace one can", n.name, n.other())
	case !n.holds():
		return fmt.Sprintf("annotating namespace %q", n.name), ""
	case n.rancher() && n.rancherSays(conditionQuota) != "True":
		return "", fmt.Sprintf("Rancher makes no ResourceQuota of the annotation of namespace %q: put the namespace into a project of "+
			"Rancher whose quota has room for it, and which limits cpu, memory and storage of its namespaces", n.name)
	case n.rancher():
		return "", ""
	case n.quotaObject().Failure() != "":
		return "", fmt.Sprintf("ResourceQuota of namespace %q: %s", n.name, n.quotaObject().Failure())
	case n.liveQuota() == nil || !n.kept(n.liveQuota()):
		return fmt.Sprintf("writing the ResourceQuota of namespace %q", n.name), ""
	}
	return "", ""
}

// hard limits of the ResourceQuota.
func (n *namespace) hard() map[string]string {
	out := map[string]string{}
	for key, value := range n.limits {
		out[limitNames[key]] = value
	}
	return out
}

// limits by their key in the annotation, as Kubernetes quantities.
func limits(r ledger.Resources) map[string]string {
	out := map[string]string{}
	for key, d := range map[string]ledger.Dimension{"limitsCpu": ledger.CPU, "limitsMemory": ledger.Memory, "requestsStorage": ledger.Disk} {
		if r[d] != ledger.Unlimited {
			out[key] = d.Format(r[d])
		}
	}
	return out
}

// includes says whether amounts are those wanted, however they are written. Others may be beside them.
func includes(amounts map[string]any, wanted map[string]string) bool {
	for key, value := range wanted {
		text, _ := amounts[key].(string)
		got, err := resource.ParseQuantity(text)
		if err != nil || got.Cmp(resource.MustParse(value)) != 0 {
			return false
		}
	}
	return true
}

// encode what came out of JSON, or holds nothing but text.
func encode(v any) string {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}
