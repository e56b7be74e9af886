// Package provisioner stands in for Rancher and the hypervisor behind it: it drives provisioning.cattle.io Clusters
// through the conditions that Rancher reports, with Machines that take their time to come and to go.
package provisioner

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Cluster is what matters of a Rancher cluster.
type Cluster struct {
	Namespace, Name, UID string
	// Generation of the spec.
	Generation int64
	// Deleting says that it was deleted and waits for its finalizer.
	Deleting bool
	// Ready is its status.ready, which is never taken back.
	Ready bool
	// ClusterName is its management cluster's name, once it has one.
	ClusterName string
	// Error that the provider reports instead of building machines.
	Error string
	Pools []Pool
	// CreateDelay and DeleteDelay are how long one machine takes.
	CreateDelay, DeleteDelay time.Duration
}

// A Pool of machines. Machines of an earlier Config are replaced.
type Pool struct {
	Name       string
	Quantity   int
	ConfigKind string
	Config     string
	// Missing says that there is no such machine config.
	Missing bool
	// Etcd, ControlPlane and Worker are the roles of the machines.
	Etcd, ControlPlane, Worker bool
}

// A Machine of a cluster.
type Machine struct {
	Name, Pool, Config string
	Created            time.Time
	// Deleted is when it was asked to go. Zero while it stays.
	Deleted time.Time
	Phase   string
}

// Phases of a machine, as Cluster API names them.
const (
	PhaseProvisioning = "Provisioning"
	PhaseRunning      = "Running"
	PhaseDeleting     = "Deleting"
)

// A Plan is what is to be done now.
type Plan struct {
	// Create machines.
	Create []Machine
	// Delete machines, by name, which starts their removal.
	Delete []string
	// Gone machines have been removed at the provider.
	Gone []string
	// Phases of the machines that are not Gone.
	Phases map[string]string
	// Release the finalizer of the cluster.
	Release bool
	// Status of the cluster. Conditions that it does not have stay as they are.
	Status Status
}

// Status of a Rancher cluster.
type Status struct {
	Ready              bool
	ObservedGeneration int64
	ClusterName        string
	ClientSecretName   string
	Conditions         []Condition
}

// A Condition of a Rancher cluster.
type Condition struct {
	Type, Status, Reason, Message string
}

// Next plans the next step of a cluster with these machines.
func Next(c Cluster, machines []Machine, now time.Time) Plan {
	p := Plan{Phases: map[string]string{}}
	slices.SortFunc(machines, func(a, b Machine) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	var left []Machine
	for _, m := range machines {
		if !m.Deleted.IsZero() && now.Sub(m.Deleted) >= c.DeleteDelay {
			p.Gone = append(p.Gone, m.Name)
			continue
		}
		m.Phase = phaseOf(c, m, now)
		p.Phases[m.Name] = m.Phase
		left = append(left, m)
	}
	if c.Deleting {
		return teardown(p, c, left)
	}
	for _, pool := range c.Pools {
		scale(&p, c, pool, left, now)
	}
	for _, m := range left {
		if m.Phase != PhaseDeleting && !slices.ContainsFunc(c.Pools, func(pool Pool) bool { return pool.Name == m.Pool }) {
			p.Delete = append(p.Delete, m.Name)
		}
	}
	p.Status = report(p, c, left)
	return p
}

func phaseOf(c Cluster, m Machine, now time.Time) string {
	switch {
	case !m.Deleted.IsZero():
		return PhaseDeleting
	case m.Phase == PhaseRunning || c.Error == "" && now.Sub(m.Created) >= c.CreateDelay:
		return PhaseRunning
	default:
		return PhaseProvisioning
	}
}

// teardown removes every machine, then the cluster.
func teardown(p Plan, c Cluster, left []Machine) Plan {
	var names []string
	for _, m := range left {
		names = append(names, m.Name)
		if m.Phase != PhaseDeleting {
			p.Delete = append(p.Delete, m.Name)
		}
	}
	p.Release = len(left) == 0
	p.Status = Status{Ready: c.Ready, ObservedGeneration: c.Generation, ClusterName: c.ClusterName, ClientSecretName: secretName(c)}
	// Rancher sets these to True on deletion, whatever they were.
	for _, conditionType := range []string{"Provisioned", "Updated", "Waiting", "Pending"} {
		p.Status.Conditions = append(p.Status.Conditions, Condition{Type: conditionType, Status: "True"})
	}
	p.Status.Conditions = append(p.Status.Conditions, Condition{
		Type: "Removed", Status: "Unknown", Reason: "Waiting", Message: "waiting for machines to be deleted: " + strings.Join(names, ", "),
	})
	return p
}

// scale a pool as a MachineDeployment with maxSurge 1 and maxUnavailable 0 does.
func scale(p *Plan, c Cluster, pool Pool, left []Machine, now time.Time) {
	var current, old []Machine
	running := 0
	for _, m := range left {
		switch {
		case m.Pool != pool.Name || m.Phase == PhaseDeleting:
		case m.Config == pool.Config:
			current = append(current, m)
			if m.Phase == PhaseRunning {
				running++
			}
		default:
			old = append(old, m)
		}
	}
	if missing := pool.Quantity - len(current); missing > 0 && !pool.Missing && c.Error == "" {
		if len(old) > 0 {
			missing = min(missing, max(0, pool.Quantity+1-len(current)-len(old)))
		}
		for range missing {
			m := Machine{Name: freeName(c, pool, left, p.Create), Pool: pool.Name, Config: pool.Config, Created: now, Phase: PhaseProvisioning}
			p.Create = append(p.Create, m)
		}
	}
	for surplus := len(current) - pool.Quantity; surplus > 0; surplus-- {
		p.Delete = append(p.Delete, current[len(current)-surplus].Name)
	}
	for _, m := range old[:min(len(old), max(0, running+len(old)-pool.Quantity))] {
		p.Delete = append(p.Delete, m.Name)
	}
}

// freeName of a new machine. It is the same for the same machines, so that a machine that was created a moment ago, and
// is not seen yet, is not created twice.
func freeName(c Cluster, pool Pool, machines ...[]Machine) string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s-%s-%s", c.Name, pool.Name, digest(c.UID, pool.Config, strconv.Itoa(n)))
		if !slices.ContainsFunc(slices.Concat(machines...), func(m Machine) bool { return m.Name == name }) {
			return name
		}
	}
}

func digest(parts ...string) string {
	const length = 8
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:length]
}

func secretName(c Cluster) string { return c.Name + "-kubeconfig" }

// report the state of a cluster that is to stay.
func report(p Plan, c Cluster, left []Machine) Status {
	s := Status{
		Ready: c.Ready, ObservedGeneration: c.Generation, ClusterName: c.ClusterName, ClientSecretName: secretName(c),
	}
	if s.ClusterName == "" {
		s.ClusterName = "c-m-" + digest(c.UID)
	}
	waiting := waitsFor(p, c, left)
	s.Ready = s.Ready || waiting == "" && c.Error == ""
	for _, conditionType := range []string{"Provisioned", "Updated", "Ready"} {
		condition := Condition{Type: conditionType, Status: "True"}
		switch {
		case c.Error != "":
			condition = Condition{Type: conditionType, Status: "False", Reason: "Error", Message: c.Error}
		case waiting != "":
			condition = Condition{Type: conditionType, Status: "Unknown", Reason: "Waiting", Message: waiting}
		}
		s.Conditions = append(s.Conditions, condition)
	}
	return s
}

// waitsFor says what the cluster waits for, in the order in which Rancher does. Empty if nothing.
func waitsFor(p Plan, c Cluster, left []Machine) string {
	roles := map[string]bool{}
	var provisioning, leaving []string
	for _, m := range left {
		switch m.Phase {
		case PhaseRunning:
			for _, pool := range c.Pools {
				if pool.Name == m.Pool {
					roles["etcd"], roles["control plane"], roles["worker"] = roles["etcd"] || pool.Etcd, roles["control plane"] || pool.ControlPlane, roles["worker"] || pool.Worker
				}
			}
		case PhaseProvisioning:
			provisioning = append(provisioning, m.Name)
		default:
			leaving = append(leaving, m.Name)
		}
	}
	for _, m := range p.Create {
		provisioning = append(provisioning, m.Name)
	}
	leaving = append(leaving, p.Delete...)
	for _, pool := range c.Pools {
		if pool.Missing {
			return fmt.Sprintf("waiting for %s %s/%s of pool %s", pool.ConfigKind, c.Namespace, pool.Config, pool.Name)
		}
	}
	switch {
	case len(left) == 0:
		return "waiting for viable init node"
	case len(provisioning) > 0 && !roles["etcd"] && !roles["control plane"]:
		return "configuring bootstrap node(s) " + strings.Join(provisioning, ", ") + ": waiting for agent to check in and apply initial plan"
	case len(provisioning) > 0:
		return "configuring node(s) " + strings.Join(provisioning, ", ") + ": waiting for agent to check in and apply initial plan"
	case len(leaving) > 0:
		return "waiting for machine(s) to be deleted: " + strings.Join(leaving, ", ")
	}
	for _, role := range []string{"etcd", "control plane", "worker"} {
		if !roles[role] {
			return "waiting for at least one " + role + " node"
		}
	}
	return ""
}
