package ledger

import (
	"fmt"
	"strings"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// String lists what is not zero, such as "12 cpu, 48Gi memory, 3 nodes".
func (r Resources) String() string {
	var parts []string
	for d := range dimensions {
		if r[d] != 0 && (d != Clusters || r[d] > 1) {
			parts = append(parts, d.Format(r[d])+" "+d.String())
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Refusal says what is needed, and in which dimensions how much of which limit is missing, such as "needs 24 cpu, short
// 16 of 64".
func Refusal(need, short, limits Resources) string {
	var parts []string
	for d := range dimensions {
		if short[d] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s, short %s of %s", d.Format(need[d]), d, d.Format(short[d]), d.Format(limits[d])))
		}
	}
	return "needs " + strings.Join(parts, "; ")
}

// Excess says which dimensions of a need the whole quota could not hold.
func Excess(need, limits Resources) string {
	var parts []string
	for d := range dimensions {
		if need[d] > limits[d] {
			parts = append(parts, fmt.Sprintf("%s %s, the whole quota is %s", d.Format(need[d]), d, d.Format(limits[d])))
		}
	}
	return "needs " + strings.Join(parts, "; ")
}

// Usage shows what is reserved of each limit.
func (s Settlement) Usage(limits Resources) v1alpha1.Usage {
	reserved := s.Reserved()
	show := func(d Dimension) string {
		if limits[d] == Unlimited {
			return d.Format(reserved[d])
		}
		return d.Format(reserved[d]) + "/" + d.Format(limits[d])
	}
	return v1alpha1.Usage{CPU: show(CPU), Memory: show(Memory), Disk: show(Disk), Nodes: show(Nodes), Clusters: show(Clusters)}
}

// Buckets shows where the quota is. An unlimited dimension is left out of what is free.
func (s Settlement) Buckets() v1alpha1.Buckets {
	free := s.Free.Positive()
	if free[Nodes] == Unlimited {
		free[Nodes] = 0
	}
	return v1alpha1.Buckets{
		Used: s.Used.Cluster(), Pending: s.Pending.Cluster(), Releasing: s.Releasing.Cluster(), Free: free.Cluster(),
	}
}
