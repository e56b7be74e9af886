package ledger

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// queueLength is how many waiting clusters the status shows.
const queueLength = 50

// ParseRecord reads a quota record.
func ParseRecord(path *field.Path, in v1alpha1.QuotaRecord) (Record, field.ErrorList) {
	keeps, errs := ParseCluster(path.Child("keeps"), in.Keeps)
	out := Record{Keeps: keeps, Fence: in.Fence, Generation: in.Generation, SettledSince: timeOf(in.SettledSince)}
	for i, p := range in.Pools {
		pool, more := ParsePool(path.Child("pools").Index(i), p)
		out.Pools = append(out.Pools, pool)
		errs = append(errs, more...)
	}
	for i, p := range in.Rolling {
		node, more := ParseNode(path.Child("rolling").Index(i).Child("node"), p.Node)
		out.Rolling = append(out.Rolling, Pool{Name: p.Name, Count: p.Count, Node: node})
		errs = append(errs, more...)
	}
	Sort(out.Pools)
	return out, errs
}

// ParsePool reads an admitted pool.
func ParsePool(path *field.Path, in v1alpha1.AdmittedPool) (AdmittedPool, field.ErrorList) {
	node, errs := ParseNode(path.Child("node"), in.Node)
	return AdmittedPool{Pool: Pool{Name: in.Name, Count: in.Count, Node: node}, Spec: in}, errs
}

// API is the inverse of ParseRecord.
func (r Record) API() v1alpha1.QuotaRecord {
	out := v1alpha1.QuotaRecord{
		Keeps: r.Keeps.Cluster(), Fence: r.Fence, Generation: r.Generation, SettledSince: apiTime(r.SettledSince),
	}
	for _, p := range r.Pools {
		out.Pools = append(out.Pools, p.Spec)
	}
	for _, p := range r.Rolling {
		out.Rolling = append(out.Rolling, v1alpha1.RollingPool{Name: p.Name, Count: p.Count, Node: p.Node.Node()})
	}
	return out
}

// Parse reads a ledger.
func Parse(path *field.Path, in v1alpha1.Ledger) (Ledger, field.ErrorList) {
	out := Ledger{Revision: in.Revision}
	var errs field.ErrorList
	for i, g := range in.Grants {
		amount, more := ParseCluster(path.Child("grants").Index(i).Child("amount"), g.Amount)
		errs = append(errs, more...)
		out.Grants = append(out.Grants, Grant{
			Cluster: g.Cluster, Claim: g.Claim, Amount: amount, Revision: g.Revision, Provisioned: g.Provisioned,
			Releasing: g.Releasing, GoneSince: timeOf(g.GoneSince),
		})
	}
	return out, errs
}

// API is the inverse of Parse.
func (l Ledger) API() v1alpha1.Ledger {
	out := v1alpha1.Ledger{Revision: l.Revision}
	for _, g := range l.Grants {
		out.Grants = append(out.Grants, v1alpha1.Grant{
			Cluster: g.Cluster, Claim: g.Claim, Amount: g.Amount.Cluster(), Revision: g.Revision,
			Provisioned: g.Provisioned, Releasing: g.Releasing, GoneSince: apiTime(g.GoneSince),
		})
	}
	return out
}

// Queue shows the first clusters that wait.
func Queue(waiting []Waiting) []v1alpha1.QueuedCluster {
	var out []v1alpha1.QueuedCluster
	for _, w := range waiting[:min(len(waiting), queueLength)] {
		out = append(out, v1alpha1.QueuedCluster{
			Cluster: w.Cluster, Claim: w.Claim, Priority: w.Priority, Needs: w.Need.Cluster(), Short: w.Short.Shortfall(),
			OfNamespace: w.OfNamespace, Reason: w.Reason,
		})
	}
	return out
}

// Shortfall shows what is missing; dimensions that are not short are left out.
func (r Resources) Shortfall() v1alpha1.Shortfall {
	show := func(d Dimension) v1alpha1.Quantity {
		if r[d] == 0 {
			return ""
		}
		return r.quantity(d)
	}
	return v1alpha1.Shortfall{
		ClusterResources: v1alpha1.ClusterResources{CPU: show(CPU), Memory: show(Memory), Disk: show(Disk), Nodes: r[Nodes]},
		Clusters:         r[Clusters],
	}
}

// ParseShortfall is the inverse of Shortfall.
func ParseShortfall(path *field.Path, in v1alpha1.Shortfall) (Resources, field.ErrorList) {
	r, errs := ParseCluster(path, in.ClusterResources)
	r[Clusters] = in.Clusters
	return r, errs
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// apiTime rounds down to seconds, as the API does.
func apiTime(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}
