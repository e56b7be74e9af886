package ledger

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// Pool is a number of nodes and what each of them takes.
type Pool struct {
	Name  string
	Count int64
	// Node is the footprint of one node.
	Node Resources
}

// AdmittedPool is a pool together with what is rendered for it.
type AdmittedPool struct {
	Pool
	// Spec is rendered. To the ledger it only matters whether it stays the same.
	Spec v1alpha1.AdmittedPool
}

// total is what pools take together.
func total(pools []Pool) (sum Resources) {
	for _, p := range pools {
		sum = sum.Plus(p.Node.Times(p.Count))
	}
	if !sum.IsZero() {
		sum[Clusters] = 1
	}
	return sum
}

// LargestNode of the pools of records, those that may still exist included: the most in each dimension.
func LargestNode(records ...Record) (largest Resources) {
	for _, r := range records {
		for _, p := range slices.Concat(bounds(r.Pools), r.Rolling) {
			largest = largest.Max(p.Node)
		}
	}
	return largest
}

// envelope bounds everything that may exist while one set of pools becomes another: a name that is in both has at most
// the larger count of nodes, each at most as large as the larger node; other names exist beside each other.
func envelope(sets ...[]Pool) []Pool {
	var out []Pool
	for _, set := range sets {
		for _, p := range set {
			i := slices.IndexFunc(out, func(o Pool) bool { return o.Name == p.Name })
			if i < 0 {
				out = append(out, p)
				continue
			}
			out[i].Count = max(out[i].Count, p.Count)
			out[i].Node = out[i].Node.Max(p.Node)
		}
	}
	slices.SortFunc(out, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// bounds are the pools without what is rendered for them.
func bounds(pools []AdmittedPool) []Pool {
	out := make([]Pool, 0, len(pools))
	for _, p := range pools {
		out = append(out, p.Pool)
	}
	return out
}

// beyond is the part of the rolling pools that the rendered ones do not bound already.
func beyond(rolling, rendered []Pool) []Pool {
	var out []Pool
	for _, p := range rolling {
		bounded := slices.ContainsFunc(rendered, func(r Pool) bool {
			return r.Name == p.Name && r.Count >= p.Count && p.Node.Within(r.Node)
		})
		if !bounded {
			out = append(out, p)
		}
	}
	return out
}

// sameMachines says whether two sets of pools are rendered into the same machines: labels and taints, which are changed
// in place, do not matter.
func sameMachines(a, b []AdmittedPool) bool {
	return slices.EqualFunc(a, b, func(p, q AdmittedPool) bool {
		p.Spec.Labels, q.Spec.Labels = nil, nil
		p.Spec.Taints, q.Spec.Taints = nil, nil
		return reflect.DeepEqual(p, q)
	})
}
