package main

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
)

// Mailboxes are EnvironmentConfigs: cluster-scoped, without a controller of their own, and part of every Crossplane.
// They carry copies of what is committed, so they may lag or go back without harm.
var environmentConfig = resourceKind{"apiextensions.crossplane.io/v1beta1", "EnvironmentConfig"} //nolint:gochecknoglobals // A constant that Go cannot express as one.

// pages of an InfraBlueprint. Their number is fixed, so that what a cluster requires never changes.
const pages = 4

const requestPrefix = "rig-request-"

func requestName(cluster string) string { return requestPrefix + cluster }
func termsName(infra string) string     { return "rig-terms-" + infra }

// pageOf a cluster, by hash of its name.
func pageOf(cluster string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(cluster))
	return int(h.Sum32() % pages)
}

func numberedPage(infra string, n int) string { return fmt.Sprintf("rig-page-%d-%s", n, infra) }

// mailbox is an EnvironmentConfig.
func mailbox(name, infra, kind string, labels map[string]any, data map[string]any) map[string]any {
	all := map[string]any{v1alpha1.LabelInfraBlueprint: infra, v1alpha1.LabelMailbox: kind}
	maps.Copy(all, labels)
	return map[string]any{
		"apiVersion": environmentConfig.apiVersion,
		"kind":       environmentConfig.kind,
		"metadata":   map[string]any{"name": name, "labels": all},
		"data":       data,
	}
}

// requestMailbox is what a cluster posts.
func requestMailbox(infra string, r ledger.Request) map[string]any {
	data := map[string]any{
		"cluster": r.Cluster, "need": r.Need.Cluster(), "keeps": r.Keeps.Cluster(), "fence": r.Fence,
		"provisioned": r.Provisioned,
	}
	if r.Claim != "" {
		data["claim"] = r.Claim
	}
	if r.Priority != 0 {
		data["priority"] = r.Priority
	}
	if r.Largest != nil {
		data["largest"] = r.Largest.Node()
	}
	if !r.Created.IsZero() {
		data["created"] = r.Created.UTC().Format(time.RFC3339)
	}
	return mailbox(requestName(r.Cluster), infra, v1alpha1.MailboxRequest, map[string]any{v1alpha1.LabelCluster: r.Cluster}, data)
}

// readRequest reads what a cluster posted. One that cannot be read, or from which something is missing, still says that
// the cluster is there.
func readRequest(in *structpb.Struct) ledger.Request {
	r := ledger.Request{
		Cluster:     strings.TrimPrefix(text(in, "metadata", "name"), requestPrefix),
		Claim:       text(in, "data", "claim"),
		Created:     timestamp(in, "data", "created"),
		Priority:    integer(in, "data", "priority"),
		Fence:       integer(in, "data", "fence"),
		Provisioned: value(in, "data", "provisioned").GetBoolValue(),
	}
	need, needErrs := readResources(in, "data", "need")
	keeps, keepsErrs := readResources(in, "data", "keeps")
	r.Need, r.Keeps = need, keeps
	complete := value(in, "data", "need", "cpu") != nil && value(in, "data", "keeps", "cpu") != nil
	if largest, errs := readResources(in, "data", "largest"); value(in, "data", "largest") != nil && len(errs) == 0 {
		r.Largest = &largest
	}
	r.Unreadable = !complete || len(needErrs) > 0 || len(keepsErrs) > 0 || text(in, "data", "cluster") != r.Cluster
	return r
}

// readResources reads what a cluster takes.
func readResources(in *structpb.Struct, path ...string) (ledger.Resources, field.ErrorList) {
	at := func(key string) []string { return append(append([]string{}, path...), key) }
	return ledger.ParseCluster(field.NewPath(path[0], path[1:]...), v1alpha1.ClusterResources{
		CPU:    v1alpha1.Quantity(text(in, at("cpu")...)),
		Memory: v1alpha1.Quantity(text(in, at("memory")...)),
		Disk:   v1alpha1.Quantity(text(in, at("disk")...)),
		Nodes:  integer(in, at("nodes")...),
	})
}

// readOffers reads the offers of a page.
func readOffers(page *structpb.Struct) (map[string]ledger.Offer, error) {
	out := map[string]ledger.Offer{}
	for cluster := range value(page, "data", "offers").GetStructValue().GetFields() {
		amount, errs := readResources(page, "data", "offers", cluster, "amount")
		if len(errs) > 0 {
			return nil, fmt.Errorf("cannot read page %q: %w", text(page, "metadata", "name"), errs.ToAggregate())
		}
		out[cluster] = ledger.Offer{Amount: amount, Revision: integer(page, "data", "offers", cluster, "revision")}
	}
	return out, nil
}

// waits says why a cluster waits, as of the last look at its request.
type waits struct {
	Needs       v1alpha1.ClusterResources `json:"needs"`
	Short       v1alpha1.Shortfall        `json:"short,omitzero"`
	OfNamespace bool                      `json:"ofNamespace,omitempty"`
	Reason      string                    `json:"reason"`
}
