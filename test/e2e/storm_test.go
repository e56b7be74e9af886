package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

// How large a storm is. Only make storm runs one: it takes minutes, and nothing else can run beside it.
var scale = struct { //nolint:gochecknoglobals // Flags.
	full                *bool
	claims, room, kills *int
	seed                *uint64
}{
	full:   flag.Bool("storm.full", false, "storm, and measure latency and overhead"),
	claims: flag.Int("storm.claims", 24, "claims of the storm"),
	room:   flag.Int("storm.room", 6, "clusters that there is room for"),
	kills:  flag.Int("storm.kills", 3, "how often Crossplane, the function or both are killed"),
	seed:   flag.Uint64("storm.seed", 0, "of everything that is random; another one every time when 0"),
}

// base is how many nodes the claims of a storm begin and end with, and grown how many the ones that grow have.
const base, grown = 2, 3

// A storm is a crowd of claims that want more than there is, on a control plane whose parts are killed.
type storm struct {
	*crowd

	infra string
	// random decides what is done to which claim.
	random *rand.Rand

	mu sync.Mutex
	// wanted claims by namespace/name. Those that were removed have no nodes.
	wanted map[string]claim
}

// TestStorm has more claims than there is room for come at once, grow, shrink and go, while Crossplane and the function
// are killed. At no event there is more than the quota, and in the end exactly those wait that do not fit, in order.
// It is not parallel: the other tests need what it kills.
func TestStorm(t *testing.T) {
	if !*scale.full {
		t.Skip("takes minutes: make storm")
	}
	seed := *scale.seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-storm.seed=%d, load average %s", seed, loadAverage(t))
	begun := time.Now()
	admin := as(t, stack.Admin)
	const limit = 15 * time.Minute
	quick := map[string]string{"provisioner.rig-gateway.io/create-delay": "500ms", "provisioner.rig-gateway.io/delete-delay": "1s"}
	accountantInput(t, admin, map[string]any{"unprovisionedQuarantine": "2m"})
	quota := *scale.room * base * nodeCPU
	// It stays until the control plane ends: it is protected while claims use it, and they take minutes to go.
	as(t, stack.Platform).apply(infra{name: "storm", cpu: quota, annotations: quick}.yaml(t))
	s := &storm{
		crowd: watchCrowd(t, "storm-", int64(quota), claims, composites),
		infra: "storm", random: rand.New(rand.NewPCG(seed, 1)), wanted: map[string]claim{},
	}
	var all []claim
	for i := range *scale.claims {
		all = append(all, claim{team: stack.Teams()[i%len(stack.Teams())], name: fmt.Sprintf("storm-%03d", i), infra: s.infra, nodes: base})
	}
	cleanup(t, func(admin user) { removeAll(t, admin, claims, all) })

	runs := countRuns(t)
	killer := &killer{crowd: s.crowd, random: rand.New(rand.NewPCG(seed, 2)), runs: runs}
	var work sync.WaitGroup
	work.Go(func() { killer.kill(*scale.kills - *scale.kills/3) })
	work.Go(func() { s.mix() })
	s.tellProgress(runs)
	s.submit(all, func(c claim) (*kube.Client, string) {
		s.want(c)
		return as(t, c.team).client, c.yaml()
	})
	t.Logf("%5.1f s  %d claims are created", time.Since(begun).Seconds(), len(all))
	work.Wait()
	t.Logf("%5.1f s  changed and killed: %d clusters are admitted", time.Since(begun).Seconds(), len(s.admitted()))
	s.settles(limit)
	t.Logf("%5.1f s  settled: %d clusters are admitted, %d of them before an older one", time.Since(begun).Seconds(), len(s.admitted()), s.overtook())

	// All the same size again, so that it is certain whose turn is next.
	work.Go(func() { killer.kill(*scale.kills / 3) })
	for _, c := range s.all() {
		if c.nodes == grown {
			s.change(c, base)
		}
	}
	work.Wait()
	s.settles(limit)
	before := s.admitted()
	t.Logf("%5.1f s  settled: %d clusters of one size are admitted", time.Since(begun).Seconds(), len(before))

	leave := shuffled(s.random, before)[:max(2, len(before)/5)]
	want := append(slices.DeleteFunc(before, func(key string) bool { return slices.Contains(leave, key) }), s.waiting()[:len(leave)]...)
	for _, key := range leave {
		s.remove(s.claim(key))
	}
	s.settles(limit)
	slices.Sort(want)
	if got := s.admitted(); !slices.Equal(want, got) {
		t.Errorf("%v were removed; admitted are\n%v, want\n%v", leave, got, want)
	}
	t.Logf("%5.1f s  settled: the next %d are admitted in order", time.Since(begun).Seconds(), len(leave))

	s.crowd.mu.Lock()
	figures := [][2]string{
		{"claims", fmt.Sprintf("%d, room for %d", *scale.claims, *scale.room)},
		{"events seen", fmt.Sprintf("%d, %d times a watch was begun anew", s.events, s.relists)},
		{"maximum held", fmt.Sprintf("%d of %d cpus", s.maximum, s.quota)},
		{"clusters ever admitted", strconv.Itoa(len(s.deployed))},
		{"kills", killer.String()},
	}
	s.crowd.mu.Unlock()
	figures = append(figures, [][2]string{
		{"claim to decision", s.after(s.decided).String()},
		{"claim to Release", s.afterOf(s.released).String()},
		{"function runs", strconv.Itoa(runs.total())},
		{"load average", loadAverage(t)},
	}...)
	printTable(t, figures)
}

// tellProgress while the storm lasts.
func (s *storm) tellProgress(runs *runCounter) {
	begun := time.Now()
	background(s.t, func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(5 * time.Second):
			}
			admitted := len(s.admitted())
			s.crowd.mu.Lock()
			s.t.Logf("%5.1f s  %d claims, %d decided, %d admitted, %d clusters deployed, %d function runs", time.Since(begun).Seconds(),
				len(s.claims), len(s.decided), admitted, len(s.deployed), runs.total())
			s.crowd.mu.Unlock()
		}
	})
}

func (s *storm) want(c claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted[c.team+"/"+c.name] = c
}

func (s *storm) claim(key string) claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted[key]
}

// all claims that are wanted, in the order of their names.
func (s *storm) all() []claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.DeleteFunc(slices.Collect(maps.Values(s.wanted)), func(c claim) bool { return c.nodes == 0 })
	slices.SortFunc(out, func(a, b claim) int { return strings.Compare(a.name, b.name) })
	return out
}

// change the size of a claim.
func (s *storm) change(c claim, nodes int) {
	c.nodes = nodes
	s.want(c)
	if err := as(s.t, c.team).client.Apply(s.t.Context(), c.yaml()); err != nil {
		s.t.Errorf("cannot change claim %s: %v", c.name, err)
	}
}

func (s *storm) remove(c claim) {
	c.nodes = 0
	s.want(c)
	if err := as(s.t, c.team).client.Delete(s.t.Context(), claims, c.team, c.name); err != nil {
		s.t.Errorf("cannot remove claim %s: %v", c.name, err)
	}
}

// mix growth, shrinking and removal into the storm: half as often as there are claims, on clusters that are admitted as
// well as on claims that wait.
func (s *storm) mix() {
	for range *scale.claims / 2 {
		s.pass(s.random.IntN(64))
		all := s.all()
		if admitted := s.admitted(); s.random.IntN(2) == 0 {
			all = slices.DeleteFunc(all, func(c claim) bool { return !slices.Contains(admitted, c.team+"/"+c.name) })
		}
		if len(all) == 0 {
			continue
		}
		switch c := all[s.random.IntN(len(all))]; {
		case s.random.IntN(6) == 0:
			s.remove(c)
		case c.nodes == grown:
			s.change(c, base)
		default:
			s.change(c, grown)
		}
	}
}

func shuffled(r *rand.Rand, in []string) []string {
	out := slices.Clone(in)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// cluster behind a claim, nil if there is none yet. The crowd must be locked.
func (c *crowd) cluster(key string) *unstructured.Unstructured {
	claim := c.claims[key]
	if claim == nil {
		return nil
	}
	return c.composites[fieldOf(claim, "spec.resourceRef.name")]
}

// keeps of a cluster in cpus, by its record.
func keeps(cluster *unstructured.Unstructured) int64 {
	out, err := strconv.ParseInt(cmp.Or(fieldOf(cluster, "status.quota.keeps.cpu"), "0"), 10, 64)
	if err != nil {
		return -1
	}
	return out
}

// partition claims into those whose clusters keep something, by name, and those who wait for their first, in their order.
func (s *storm) partition() (admitted, waiting []string) {
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	order := map[string]string{}
	for key := range s.claims {
		cluster := s.cluster(key)
		switch {
		case cluster == nil:
		case keeps(cluster) > 0:
			admitted = append(admitted, key)
		default:
			waiting = append(waiting, key)
			order[key] = place(cluster)
		}
	}
	slices.Sort(admitted)
	slices.SortFunc(waiting, func(a, b string) int { return strings.Compare(order[a], order[b]) })
	return admitted, waiting
}

// place of a cluster in the queue, as a text that sorts: by creation, then by name.
func place(cluster *unstructured.Unstructured) string {
	return cluster.GetCreationTimestamp().UTC().Format(time.RFC3339) + " " + cluster.GetName()
}

func (s *storm) admitted() []string { admitted, _ := s.partition(); return admitted }
func (s *storm) waiting() []string  { _, waiting := s.partition(); return waiting }

// overtook counts the clusters that were admitted though an older one waits: it asked later.
func (s *storm) overtook() int {
	admitted, waiting := s.partition()
	if len(waiting) == 0 {
		return 0
	}
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	first, count := place(s.cluster(waiting[0])), 0
	for _, key := range admitted {
		if place(s.cluster(key)) > first {
			count++
		}
	}
	return count
}

// settles until nothing moves any more: what is wanted and fits exists, and everybody else is told why not.
func (s *storm) settles(limit time.Duration) {
	s.t.Helper()
	infra := as(s.t, stack.Platform)
	err := kube.Wait(s.t.Context(), limit, func(ctx context.Context) error {
		if err := s.unsettled(); err != nil {
			return err
		}
		_, waiting := s.partition()
		live, err := infra.client.Get(ctx, infras, "", s.infra)
		if err != nil {
			return err
		}
		return s.disagrees(live, waiting)
	})
	if err != nil {
		s.t.Fatalf("it does not settle: %v\n%s", err, show(infra.get(infras, "", s.infra)))
	}
}

// unsettled says what is not as it should be in the end, nil if all is.
func (s *storm) unsettled() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	free := s.quota
	for _, cluster := range s.composites {
		free -= keeps(cluster)
	}
	live := 0
	for _, key := range slices.Sorted(maps.Keys(s.wanted)) {
		c, is := s.wanted[key], s.claims[key]
		if c.nodes == 0 {
			if is != nil {
				return fmt.Errorf("claim %s is still there", key)
			}
			continue
		}
		live++
		cluster := s.cluster(key)
		if cluster == nil {
			return fmt.Errorf("claim %s has no composite", key)
		}
		name, admitted := cluster.GetName(), kube.ConditionOf(is, "Admitted")
		need, kept := int64(c.nodes*nodeCPU), keeps(cluster)
		switch release := s.releases[name]; {
		case kept > need:
			return fmt.Errorf("%s keeps %d cpus and needs %d", name, kept, need)
		case kept > 0 && release == nil:
			return fmt.Errorf("%s has no Release", name)
		case kept > 0:
			if held, err := holds(release); err != nil || held != kept || int64(len(s.machines[name])) != kept/nodeCPU {
				return errors.Join(fmt.Errorf("%s keeps %d cpus; its Release holds %d, and there are %d machines", name, kept, held, len(s.machines[name])), err)
			}
		case release != nil:
			if held, err := holds(release); err != nil || held > 0 {
				return errors.Join(fmt.Errorf("%s keeps nothing, and its Release holds %d cpus", name, held), err)
			}
		}
		want := kube.Condition{Status: "True", Reason: "Admitted"}
		if kept < need {
			if short := need - kept - free; short <= 0 {
				return fmt.Errorf("%s needs %d cpus, keeps %d and is not admitted, though %d are free: %s", name, need, kept, free, admitted)
			}
			want = kube.Condition{Status: "False", Reason: "QuotaExceeded", Message: fmt.Sprintf("needs %d cpu, short %d of %d;", need, need-kept-free, s.quota)}
		}
		if admitted.Status != want.Status || admitted.Reason != want.Reason || !strings.HasPrefix(admitted.Message, want.Message) {
			return fmt.Errorf("claim %s says %s, want %s", key, admitted, want)
		}
	}
	if len(s.composites) != live || len(s.claims) != live {
		return fmt.Errorf("there are %d composites and %d claims, want %d", len(s.composites), len(s.claims), live)
	}
	return nil
}

// disagrees says where the InfraBlueprint has another picture.
func (s *storm) disagrees(infra *unstructured.Unstructured, waiting []string) error {
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	var kept int64
	for _, cluster := range s.composites {
		kept += keeps(cluster)
	}
	if want, got := fmt.Sprintf("%d/%d", kept, s.quota), fieldOf(infra, "status.usage.cpu"); got != want {
		return fmt.Errorf("%s: usage of cpus is %s, want %s", kube.Name(infra), got, want)
	}
	// Beside those who wait for their first, some wait to grow.
	var queue []string
	entries, _, err := unstructured.NestedSlice(infra.Object, "status", "ledger", "queue")
	if err != nil {
		return err
	}
	for _, one := range entries {
		if key := fieldOf(&unstructured.Unstructured{Object: one.(map[string]any)}, "claim"); keeps(s.cluster(key)) == 0 {
			queue = append(queue, key)
		}
	}
	if want := waiting[:min(len(waiting), len(queue))]; !slices.Equal(want, queue) {
		return fmt.Errorf("%s: the queue is %v, want %v", kube.Name(infra), queue, want)
	}
	return nil
}

// removeAll claims at once, after a test, without waiting for it.
func removeAll(t *testing.T, admin user, resource string, all []claim) {
	t.Helper()
	for _, c := range all {
		if err := admin.client.Delete(context.Background(), resource, c.team, c.name); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("cannot remove claim %s: %v", c.name, err)
		}
	}
}

// accountantInput sets the function's input in the Composition of InfraBlueprints, until the test ends.
func accountantInput(t *testing.T, admin user, input map[string]any) {
	t.Helper()
	const resource = "compositions.apiextensions.crossplane.io"
	composition := admin.get(resource, "", infras)
	before, _, _ := unstructured.NestedSlice(composition.Object, "spec", "pipeline")
	input["apiVersion"], input["kind"] = "fn.rig-gateway.io/v1beta1", "Input"
	step := maps.Clone(before[0].(map[string]any))
	step["input"] = input
	set := func(pipeline ...any) error {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"pipeline": pipeline}})
		if err != nil {
			return err
		}
		return admin.client.Patch(context.Background(), resource, "", infras, string(patch))
	}
	if err := set(step); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set(before...); err != nil {
			t.Error(err)
		}
	})
}

// A killer of Crossplane and of the function.
type killer struct {
	*crowd

	random *rand.Rand
	runs   *runCounter
	// next victims: each of the two alone, and both at once, in any order.
	next [][]string

	crossplane, function int
	// down is how long Crossplane did not run, altogether.
	down time.Duration
}

func (k *killer) String() string {
	return fmt.Sprintf("%d of Crossplane, %d of the function; Crossplane was down for %.0f s", k.crossplane, k.function, k.down.Seconds())
}

// kill so many times, at random moments while clusters are built.
func (k *killer) kill(times int) {
	for range times {
		k.pass(k.random.IntN(4 * *scale.claims))
		if len(k.next) == 0 {
			k.next = [][]string{{stack.Crossplane}, {stack.Function}, {stack.Crossplane, stack.Function}}
			k.random.Shuffle(len(k.next), func(i, j int) { k.next[i], k.next[j] = k.next[j], k.next[i] })
		}
		victims := k.next[0]
		k.next = k.next[1:]
		k.runs.read()
		begun := time.Now()
		k.t.Logf("kill %v", victims)
		for _, name := range victims {
			if err := plane.Kill(name); err != nil {
				k.t.Error(err)
			}
		}
		time.Sleep(time.Duration(k.random.IntN(1500)) * time.Millisecond)
		for _, name := range victims {
			if err := plane.Start(context.WithoutCancel(k.t.Context()), name); err != nil {
				k.t.Error(err)
			}
			if name == stack.Crossplane {
				k.crossplane++
				k.down += time.Since(begun)
			} else {
				k.function++
			}
		}
	}
}

// A runCounter counts the runs of the function, across its restarts: at least those that its metrics told before it was
// killed.
type runCounter struct {
	mu          sync.Mutex
	before, now int
}

var handledRuns = regexp.MustCompile(`(?m)^grpc_server_handled_total\{.*grpc_method="RunFunction".*\} (\S+)$`)

func countRuns(t *testing.T) *runCounter {
	t.Helper()
	c := &runCounter{}
	c.read()
	c.before = -c.now
	background(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			c.read()
			time.Sleep(500 * time.Millisecond)
		}
	})
	return c
}

func (c *runCounter) read() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := handled()
	if err != nil {
		return
	}
	if now < c.now {
		c.before += c.now
	}
	c.now = now
}

func handled() (int, error) {
	response, err := http.Get(plane.FunctionMetrics()) //nolint:noctx // On the loopback.
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // It is read to its end.
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, match := range handledRuns.FindAllSubmatch(text, -1) {
		v, err := strconv.ParseFloat(string(match[1]), 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return int(sum), nil
}

func (c *runCounter) total() int {
	c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.before + c.now
}

func loadAverage(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(raw))[:3], " ")
}

// printTable of figures, also when the test passes.
func printTable(t *testing.T, rows [][2]string) {
	t.Helper()
	text := &strings.Builder{}
	for _, row := range rows {
		fmt.Fprintf(text, "\n  %-25s %s", row[0], row[1])
	}
	t.Log(text)
}
