package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

var binarySuffixes = []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} //nolint:gochecknoglobals // A constant that Go cannot express as one.

// String lists what is not zero, such as "12 cpu, 48Gi memory, 3 nodes".
func (r Resources) String() string {
	var parts []string
	for d := range dimensions {
		if r[d] != 0 && (d != Clusters || r[d] > 1) {
			parts = append(parts, d.Show(r[d])+" "+d.noun(r[d]))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Show an amount to people: bytes in the largest unit below them, with one decimal, rounded up.
func (d Dimension) Show(v int64) string {
	if d != Memory && d != Disk || v <= 0 {
		return d.Format(v)
	}
	unit, suffix := int64(1), 0
	const step, decimal = 1024, 10
	for suffix < len(binarySuffixes)-1 && v/step >= unit {
		unit *= step
		suffix++
	}
	tenths := int64(0)
	if suffix > 0 {
		tenths = ceil(ceil(v%unit, unit/step)*decimal, step)
	}
	whole := v/unit + tenths/decimal
	if tenths %= decimal; tenths > 0 {
		return fmt.Sprintf("%d.%d%s", whole, tenths, binarySuffixes[suffix])
	}
	return strconv.FormatInt(whole, 10) + binarySuffixes[suffix]
}

// ceil divides and rounds up.
func ceil(a, b int64) int64 { return (a + b - 1) / b }

// noun of so many.
func (d Dimension) noun(v int64) string {
	if v == 1 && (d == Nodes || d == Clusters) {
		return strings.TrimSuffix(d.String(), "s")
	}
	return d.String()
}

// Refusal says what is needed, and in which dimensions how much of which limit is missing, such as "needs 24 cpu, short
// 16 of 64".
func Refusal(need, short, limits Resources) string {
	var parts []string
	for d := range dimensions {
		if short[d] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s, short %s of %s", d.Show(need[d]), d.noun(need[d]), d.Show(short[d]), d.Show(limits[d])))
		}
	}
	return "needs " + strings.Join(parts, ", and ")
}

// Excess says which dimensions of a need exceed what can be had at all, such as "needs 96 cpu, the whole quota is 64". The
// limit is introduced by words of the caller.
func Excess(need, limits Resources, limitIs string) string {
	var parts []string
	for d := range dimensions {
		if need[d] > limits[d] {
			parts = append(parts, fmt.Sprintf("%s %s, %s %s", d.Show(need[d]), d.noun(need[d]), limitIs, d.Show(limits[d])))
		}
	}
	return "needs " + strings.Join(parts, ", and ")
}

// Usage shows what is reserved of each limit.
func (s Settlement) Usage(limits Resources) v1alpha1.Usage {
	reserved := s.Reserved()
	show := func(d Dimension) string {
		if limits[d] == Unlimited {
			return d.Show(reserved[d])
		}
		return d.Show(reserved[d]) + "/" + d.Show(limits[d])
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
