// Package ledger decides who may hold how much of an InfraBlueprint's quota.
//
// Two pure functions talk to each other through mailboxes that may lag or go back: Settle keeps the InfraBlueprint's
// ledger, Gate keeps one cluster's quota record. Both records are written by compare-and-swap; the package itself knows
// neither Kubernetes clients nor protobuf, and takes the time as a value.
package ledger

import (
	"math"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// Dimension of a quota.
type Dimension int

// Dimensions, in the order in which they are reported.
const (
	CPU      Dimension = iota // milli-cpus
	Memory                    // bytes
	Disk                      // bytes
	Nodes                     // machines
	Clusters                  // clusters
	dimensions
)

// Unlimited is the limit of a dimension that has none.
const Unlimited = math.MaxInt64

// maxQuantity is the largest quantity that is accepted, in milli-cpus or bytes (4 EiB). Sums saturate above it, so a sum
// that overflows fits no limit.
const maxQuantity = math.MaxInt64 / 2

// String names the dimension as a quota does.
func (d Dimension) String() string {
	return [dimensions]string{"cpu", "memory", "disk", "nodes", "clusters"}[d]
}

// Format an amount of the dimension as a Kubernetes quantity.
func (d Dimension) Format(v int64) string {
	switch d {
	case CPU:
		return resource.NewMilliQuantity(v, resource.DecimalSI).String()
	case Memory, Disk:
		return resource.NewQuantity(v, resource.BinarySI).String()
	case Nodes, Clusters, dimensions:
	}
	return strconv.FormatInt(v, 10)
}

// Resources are amounts by dimension: milli-cpus, bytes of memory, bytes of disk, machines, clusters.
type Resources [dimensions]int64

// Plus adds in every dimension and saturates instead of overflowing.
func (r Resources) Plus(o Resources) Resources {
	for d := range r {
		r[d] = saturatingAdd(r[d], o[d])
	}
	return r
}

// Minus subtracts in every dimension. An unlimited dimension stays unlimited; a result may be negative.
func (r Resources) Minus(o Resources) Resources {
	for d := range r {
		if r[d] != Unlimited {
			r[d] = saturatingAdd(r[d], -o[d])
		}
	}
	return r
}

// Times multiplies by a number of nodes and saturates instead of overflowing.
func (r Resources) Times(n int64) Resources {
	for d := range r {
		if n > 0 && r[d] > math.MaxInt64/n {
			r[d] = math.MaxInt64
			continue
		}
		r[d] *= n
	}
	return r
}

// Max takes the larger amount in each dimension.
func (r Resources) Max(o Resources) Resources {
	for d := range r {
		r[d] = max(r[d], o[d])
	}
	return r
}

// Positive replaces negative amounts by zero.
func (r Resources) Positive() Resources {
	return r.Max(Resources{})
}

// Within says whether no dimension exceeds the limit.
func (r Resources) Within(limit Resources) bool {
	for d := range r {
		if r[d] > limit[d] {
			return false
		}
	}
	return true
}

// Growth is what a need is in the dimensions in which it exceeds what is held already, and zero in the others.
func (r Resources) Growth(held Resources) Resources {
	for d := range r {
		if r[d] <= held[d] {
			r[d] = 0
		}
	}
	return r
}

// IsZero says whether nothing is held.
func (r Resources) IsZero() bool {
	return r == Resources{}
}

func saturatingAdd(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// quantityPattern is the one that the XRDs carry. It leaves out exponents, which apimachinery takes long to expand.
var quantityPattern = regexp.MustCompile(`^\+?[0-9]{1,19}(\.[0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`)

// ParseCPU reads cpus into milli-cpus. It refuses negative amounts and fractions of a milli-cpu.
func ParseCPU(path *field.Path, q v1alpha1.Quantity) (int64, *field.Error) {
	return parse(path, q, resource.Milli, "whole milli-cpus, such as 4 or 500m")
}

// ParseBytes reads memory or disk into bytes. It refuses negative amounts and fractions of a byte.
func ParseBytes(path *field.Path, q v1alpha1.Quantity) (int64, *field.Error) {
	return parse(path, q, 0, "whole bytes, such as 16Gi")
}

func parse(path *field.Path, q v1alpha1.Quantity, scale resource.Scale, want string) (int64, *field.Error) {
	if q == "" {
		return 0, field.Required(path, "must be a Kubernetes quantity in "+want)
	}
	if !quantityPattern.MatchString(string(q)) {
		return 0, field.Invalid(path, string(q), "must be a Kubernetes quantity in "+want)
	}
	n, err := resource.ParseQuantity(string(q))
	if err != nil {
		return 0, field.Invalid(path, string(q), "must be a Kubernetes quantity in "+want)
	}
	if n.Cmp(*resource.NewScaledQuantity(maxQuantity, scale)) > 0 {
		return 0, field.Invalid(path, string(q), "is larger than any infrastructure")
	}
	v := n.ScaledValue(scale)
	if resource.NewScaledQuantity(v, scale).Cmp(n) != 0 {
		return 0, field.Invalid(path, string(q), "must be "+want)
	}
	return v, nil
}

// ParseNode reads what one node takes: cpus, memory, disk and one machine.
func ParseNode(path *field.Path, n v1alpha1.NodeResources) (Resources, field.ErrorList) {
	r, errs := parseNode(path, n)
	r[Nodes] = 1
	return r, errs
}

func parseNode(path *field.Path, n v1alpha1.NodeResources) (r Resources, errs field.ErrorList) {
	collect := func(v int64, err *field.Error) int64 {
		if err != nil {
			errs = append(errs, err)
		}
		return v
	}
	r[CPU] = collect(ParseCPU(path.Child("cpu"), n.CPU))
	r[Memory] = collect(ParseBytes(path.Child("memory"), n.Memory))
	r[Disk] = collect(ParseBytes(path.Child("disk"), n.Disk))
	return r, errs
}

// Node is the inverse of ParseNode.
func (r Resources) Node() v1alpha1.NodeResources {
	return v1alpha1.NodeResources{CPU: r.quantity(CPU), Memory: r.quantity(Memory), Disk: r.quantity(Disk)}
}

// ParseCluster reads what one cluster takes. Dimensions that are left out are zero; whoever holds anything is one
// cluster.
func ParseCluster(path *field.Path, c v1alpha1.ClusterResources) (Resources, field.ErrorList) {
	zero := func(q v1alpha1.Quantity) v1alpha1.Quantity {
		if q == "" {
			return "0"
		}
		return q
	}
	r, errs := parseNode(path, v1alpha1.NodeResources{CPU: zero(c.CPU), Memory: zero(c.Memory), Disk: zero(c.Disk)})
	r[Nodes] = c.Nodes
	if c.Nodes < 0 {
		errs = append(errs, field.Invalid(path.Child("nodes"), c.Nodes, "must not be negative"))
	}
	if !r.IsZero() {
		r[Clusters] = 1
	}
	return r, errs
}

// Cluster is the inverse of ParseCluster.
func (r Resources) Cluster() v1alpha1.ClusterResources {
	return v1alpha1.ClusterResources{CPU: r.quantity(CPU), Memory: r.quantity(Memory), Disk: r.quantity(Disk), Nodes: r[Nodes]}
}

func (r Resources) quantity(d Dimension) v1alpha1.Quantity {
	return v1alpha1.Quantity(d.Format(r[d]))
}
