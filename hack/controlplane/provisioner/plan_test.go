package provisioner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func at(seconds int) time.Time { return time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC) }

func cluster(change func(*Cluster)) Cluster {
	c := Cluster{
		Namespace: "fleet-default", Name: "shop", UID: "uid", Generation: 3, ClusterName: "c-m-abc",
		CreateDelay: 10 * time.Second, DeleteDelay: 5 * time.Second,
		Pools: []Pool{{Name: "all", Quantity: 2, ConfigKind: "HarvesterConfig", Config: "new", Etcd: true, ControlPlane: true, Worker: true}},
	}
	change(&c)
	return c
}

func conditions(status, reason, message string) []Condition {
	return []Condition{
		{Type: "Provisioned", Status: status, Reason: reason, Message: message},
		{Type: "Updated", Status: status, Reason: reason, Message: message},
		{Type: "Ready", Status: status, Reason: reason, Message: message},
	}
}

func TestNext(t *testing.T) {
	unchanged := func(*Cluster) {}
	status := func(ready bool, c []Condition) Status {
		return Status{Ready: ready, ObservedGeneration: 3, ClusterName: "c-m-abc", ClientSecretName: "shop-kubeconfig", Conditions: c}
	}
	first, second := "shop-all-"+digest("uid", "new", "0"), "shop-all-"+digest("uid", "new", "1")
	cases := map[string]struct {
		reason   string
		cluster  Cluster
		machines []Machine
		now      int
		want     Plan
	}{
		"Fresh": {
			reason:  "All machines of a new cluster are created at once.",
			cluster: cluster(unchanged),
			want: Plan{
				Create: []Machine{
					{Name: first, Pool: "all", Config: "new", Created: at(0), Phase: PhaseProvisioning},
					{Name: second, Pool: "all", Config: "new", Created: at(0), Phase: PhaseProvisioning},
				},
				Status: status(false, conditions("Unknown", "Waiting", "waiting for viable init node")),
			},
		},
		"MissingConfig": {
			reason:  "Without its machine config nothing is created.",
			cluster: cluster(func(c *Cluster) { c.Pools[0].Missing = true }),
			want: Plan{
				Status: status(false, conditions("Unknown", "Waiting", "waiting for HarvesterConfig fleet-default/new of pool all")),
			},
		},
		"Provisioning": {
			reason:   "A machine runs after its delay, and not before.",
			cluster:  cluster(unchanged),
			machines: []Machine{{Name: "a", Pool: "all", Config: "new", Created: at(0)}, {Name: "b", Pool: "all", Config: "new", Created: at(5)}},
			now:      10,
			want: Plan{
				Phases: map[string]string{"a": PhaseRunning, "b": PhaseProvisioning},
				Status: status(false, conditions("Unknown", "Waiting", "configuring node(s) b: waiting for agent to check in and apply initial plan")),
			},
		},
		"Bootstrapping": {
			reason:   "The first machines are those that Rancher bootstraps.",
			cluster:  cluster(unchanged),
			machines: []Machine{{Name: "a", Pool: "all", Config: "new", Created: at(0)}, {Name: "b", Pool: "all", Config: "new", Created: at(0)}},
			now:      9,
			want: Plan{
				Phases: map[string]string{"a": PhaseProvisioning, "b": PhaseProvisioning},
				Status: status(false, conditions("Unknown", "Waiting", "configuring bootstrap node(s) a, b: waiting for agent to check in and apply initial plan")),
			},
		},
		"Ready": {
			reason:   "A cluster whose machines all run is ready.",
			cluster:  cluster(unchanged),
			machines: []Machine{{Name: "a", Pool: "all", Config: "new", Created: at(0)}, {Name: "b", Pool: "all", Config: "new", Created: at(5)}},
			now:      15,
			want: Plan{
				Phases: map[string]string{"a": PhaseRunning, "b": PhaseRunning},
				Status: status(true, conditions("True", "", "")),
			},
		},
		"ScaledDown": {
			reason:  "The newest machine goes, and the cluster is not updated until it has gone. Ready is never taken back.",
			cluster: cluster(func(c *Cluster) { c.Ready, c.Pools[0].Quantity = true, 1 }),
			machines: []Machine{
				{Name: "b", Pool: "all", Config: "new", Created: at(1), Phase: PhaseRunning}, {Name: "a", Pool: "all", Config: "new", Created: at(0), Phase: PhaseRunning},
			},
			now: 20,
			want: Plan{
				Delete: []string{"b"},
				Phases: map[string]string{"a": PhaseRunning, "b": PhaseRunning},
				Status: status(true, conditions("Unknown", "Waiting", "waiting for machine(s) to be deleted: b")),
			},
		},
		"Leaving": {
			reason:  "A machine that was deleted takes its time.",
			cluster: cluster(func(c *Cluster) { c.Ready, c.Pools[0].Quantity = true, 1 }),
			machines: []Machine{
				{Name: "a", Pool: "all", Config: "new", Phase: PhaseRunning}, {Name: "b", Pool: "all", Config: "new", Deleted: at(20), Phase: PhaseRunning},
			},
			now: 24,
			want: Plan{
				Phases: map[string]string{"a": PhaseRunning, "b": PhaseDeleting},
				Status: status(true, conditions("Unknown", "Waiting", "waiting for machine(s) to be deleted: b")),
			},
		},
		"Gone": {
			reason:  "After its delay a deleted machine is gone, and the cluster is updated.",
			cluster: cluster(func(c *Cluster) { c.Ready, c.Pools[0].Quantity = true, 1 }),
			machines: []Machine{
				{Name: "a", Pool: "all", Config: "new", Phase: PhaseRunning}, {Name: "b", Pool: "all", Config: "new", Deleted: at(20), Phase: PhaseDeleting},
			},
			now: 25,
			want: Plan{
				Gone:   []string{"b"},
				Phases: map[string]string{"a": PhaseRunning},
				Status: status(true, conditions("True", "", "")),
			},
		},
		"RollingStarts": {
			reason:  "Another machine config first adds one machine.",
			cluster: cluster(func(c *Cluster) { c.Ready = true }),
			machines: []Machine{
				{Name: "a", Pool: "all", Config: "old", Phase: PhaseRunning}, {Name: "b", Pool: "all", Config: "old", Phase: PhaseRunning},
			},
			now: 30,
			want: Plan{
				Create: []Machine{{Name: first, Pool: "all", Config: "new", Created: at(30), Phase: PhaseProvisioning}},
				Phases: map[string]string{"a": PhaseRunning, "b": PhaseRunning},
				Status: status(true, conditions("Unknown", "Waiting", "configuring node(s) "+first+": waiting for agent to check in and apply initial plan")),
			},
		},
		"RollingReplaces": {
			reason:  "Once a new machine runs, an old one goes.",
			cluster: cluster(func(c *Cluster) { c.Ready = true }),
			machines: []Machine{
				{Name: "a", Pool: "all", Config: "old", Phase: PhaseRunning},
				{Name: "b", Pool: "all", Config: "old", Phase: PhaseRunning},
				{Name: "c", Pool: "all", Config: "new", Created: at(30)},
			},
			now: 40,
			want: Plan{
				Delete: []string{"a"},
				Phases: map[string]string{"a": PhaseRunning, "b": PhaseRunning, "c": PhaseRunning},
				Status: status(true, conditions("Unknown", "Waiting", "waiting for machine(s) to be deleted: a")),
			},
		},
		"PoolRemoved": {
			reason:  "Machines of a pool that is no more go.",
			cluster: cluster(func(c *Cluster) { c.Ready, c.Pools[0].Quantity = true, 1 }),
			machines: []Machine{
				{Name: "a", Pool: "all", Config: "new", Phase: PhaseRunning}, {Name: "b", Pool: "gone", Config: "new", Phase: PhaseRunning},
			},
			want: Plan{
				Delete: []string{"b"},
				Phases: map[string]string{"a": PhaseRunning, "b": PhaseRunning},
				Status: status(true, conditions("Unknown", "Waiting", "waiting for machine(s) to be deleted: b")),
			},
		},
		"MissingRole": {
			reason:   "Rancher waits for a node of every role.",
			cluster:  cluster(func(c *Cluster) { c.Pools[0].Worker, c.Pools[0].Quantity = false, 1 }),
			machines: []Machine{{Name: "a", Pool: "all", Config: "new", Phase: PhaseRunning}},
			want: Plan{
				Phases: map[string]string{"a": PhaseRunning},
				Status: status(false, conditions("Unknown", "Waiting", "waiting for at least one worker node")),
			},
		},
		"Error": {
			reason:   "A provider that fails builds nothing, and what runs goes on.",
			cluster:  cluster(func(c *Cluster) { c.Error = "no space left" }),
			machines: []Machine{{Name: "a", Pool: "all", Config: "new", Phase: PhaseRunning}},
			now:      60,
			want: Plan{
				Phases: map[string]string{"a": PhaseRunning},
				Status: status(false, conditions("False", "Error", "no space left")),
			},
		},
		"ManagementCluster": {
			reason:   "A cluster without a management cluster gets one.",
			cluster:  cluster(func(c *Cluster) { c.ClusterName, c.Pools[0].Quantity = "", 1 }),
			machines: []Machine{{Name: "a", Pool: "all", Config: "new", Phase: PhaseRunning}},
			want: Plan{
				Phases: map[string]string{"a": PhaseRunning},
				Status: Status{
					Ready: true, ObservedGeneration: 3, ClusterName: "c-m-" + digest("uid"), ClientSecretName: "shop-kubeconfig",
					Conditions: conditions("True", "", ""),
				},
			},
		},
		"Deleting": {
			reason:   "Every machine of a deleted cluster goes; Rancher's conditions are forced to True meanwhile.",
			cluster:  cluster(func(c *Cluster) { c.Ready, c.Deleting = true, true }),
			machines: []Machine{{Name: "a", Pool: "all", Config: "new", Phase: PhaseRunning}, {Name: "b", Pool: "all", Config: "new", Deleted: at(0)}},
			now:      1,
			want: Plan{
				Delete: []string{"a"},
				Phases: map[string]string{"a": PhaseRunning, "b": PhaseDeleting},
				Status: status(true, []Condition{
					{Type: "Provisioned", Status: "True"},
					{Type: "Updated", Status: "True"},
					{Type: "Waiting", Status: "True"},
					{Type: "Pending", Status: "True"},
					{Type: "Removed", Status: "Unknown", Reason: "Waiting", Message: "waiting for machines to be deleted: a, b"},
				}),
			},
		},
		"Deleted": {
			reason:   "The finalizer goes with the last machine.",
			cluster:  cluster(func(c *Cluster) { c.Ready, c.Deleting = true, true }),
			machines: []Machine{{Name: "b", Pool: "all", Config: "new", Deleted: at(0)}},
			now:      5,
			want: Plan{
				Gone:    []string{"b"},
				Release: true,
				Status: status(true, []Condition{
					{Type: "Provisioned", Status: "True"},
					{Type: "Updated", Status: "True"},
					{Type: "Waiting", Status: "True"},
					{Type: "Pending", Status: "True"},
					{Type: "Removed", Status: "Unknown", Reason: "Waiting", Message: "waiting for machines to be deleted: "},
				}),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.cluster, tc.machines, at(tc.now))
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s\nNext(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestRoll drives a whole replacement of machines, and of one pool by another, through time.
func TestRoll(t *testing.T) {
	c := cluster(func(c *Cluster) { c.Pools[0].Quantity = 3 })
	var machines []Machine
	run := func(from, to int) (most int) {
		for now := from; now < to; now++ {
			p := Next(c, machines, at(now))
			staying := 0
			kept := []Machine{}
			for _, m := range machines {
				phase, left := p.Phases[m.Name]
				if !left {
					continue
				}
				m.Phase = phase
				for _, name := range p.Delete {
					if name == m.Name && m.Deleted.IsZero() {
						m.Deleted = at(now)
					}
				}
				if m.Deleted.IsZero() {
					staying++
				}
				kept = append(kept, m)
			}
			machines = slices.Concat(kept, p.Create)
			most = max(most, staying+len(p.Create))
			c.Ready = p.Status.Ready
		}
		return most
	}
	settled := func(config string) error {
		p := Next(c, machines, at(1000))
		if updated := p.Status.Conditions[1]; updated.Status != "True" || len(machines) != 3 {
			return fmt.Errorf("%d machines, Updated %+v", len(machines), updated)
		}
		for _, m := range machines {
			if m.Config != config {
				return fmt.Errorf("machine %s has config %s", m.Name, m.Config)
			}
		}
		return nil
	}
	run(0, 50)
	if err := settled("new"); err != nil {
		t.Fatal(err)
	}
	c.Pools[0].Config = "newer"
	if most := run(50, 200); most != 4 {
		t.Errorf("a roll with maxSurge 1 had %d machines at once, want 4", most)
	}
	if err := settled("newer"); err != nil {
		t.Fatal(err)
	}
	c.Pools[0].Name = "renamed"
	if most := run(200, 300); most != 3 {
		t.Errorf("a renamed pool had %d machines that stay at once, want 3", most)
	}
	if err := settled("newer"); err != nil {
		t.Fatal(err)
	}
}
