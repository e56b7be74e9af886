// Package demo shows, on a running control plane, how quota is handed out, waited for and given back.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/provisioner"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

const (
	claims = "clusterblueprints.rig-gateway.io"
	infras = "infrablueprints.rig-gateway.io"
	infra  = "hci-fra"

	teamA, teamB = "team-a", "team-b"
	shop, search = "shop", "search"
	manifests    = "hack/controlplane/demo/manifests/"

	// Every node of the demo has as many cpus.
	nodeCPU = 4

	soon       = time.Minute
	afterDrain = 3 * time.Minute
)

// guide leads through the demo.
type guide struct {
	stack     *stack.Stack
	out       io.Writer
	admin     *kube.Client
	machines  *kube.Client
	begun     time.Time
	chapter   int
	lastState string
}

// Run the demo. Its objects are removed first if an earlier run left them.
func Run(ctx context.Context, s *stack.Stack, out io.Writer) error {
	admin, err := s.Client(stack.Admin)
	if err != nil {
		return err
	}
	infraClient, err := s.InfraClient()
	if err != nil {
		return err
	}
	g := &guide{stack: s, out: out, admin: admin, machines: infraClient, begun: time.Now()}
	if err := g.clear(ctx); err != nil {
		return err
	}
	// One line of RBAC for each claim, as in examples/rbac/app-team.yaml.
	for team, claim := range map[string]string{teamA: shop, teamB: search} {
		if err := s.AllowKubeconfigs(ctx, team, claim+"-kubeconfig"); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{g.handOut, g.admit, g.queue, g.shrink, g.release} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("the demo failed in step %d: %w; logs are beside %s", g.chapter, err, s.LogFile(stack.Function))
		}
	}
	g.printf("\nThat was %.0f s, and never more than 64 cpus.\n", time.Since(g.begun).Seconds())
	return nil
}

func (g *guide) handOut(ctx context.Context) error {
	g.title("The platform team hands out 64 cpus of a Harvester cluster")
	if err := g.kubectl(ctx, stack.Platform, "apply", "-f", manifests+"platform.yaml"); err != nil {
		return err
	}
	if err := g.await(ctx, soon, "the InfraBlueprint is ready", func(ctx context.Context) (bool, string, error) {
		o, err := g.admin.Get(ctx, infras, "", infra)
		if err != nil {
			return false, "", err
		}
		return kube.ConditionOf(o, "Ready").Status == "True", "", nil
	}); err != nil {
		return err
	}
	return g.show(ctx, stack.Platform, "get", "ibp", infra)
}

func (g *guide) admit(ctx context.Context) error {
	g.title("Team A claims 40 cpus")
	if err := g.kubectl(ctx, teamA, "apply", "-f", manifests+"shop.yaml"); err != nil {
		return err
	}
	if err := g.awaitClaim(ctx, teamA, shop, "Ready"); err != nil {
		return err
	}
	if err := g.show(ctx, teamA, "-n", teamA, "get", "cbp", shop); err != nil {
		return err
	}
	return g.kubectl(ctx, teamA, "-n", teamA, "get", "secret", shop+"-kubeconfig")
}

func (g *guide) queue(ctx context.Context) error {
	g.title("Team B claims 32 cpus, and is told why it waits")
	if err := g.kubectl(ctx, teamB, "apply", "-f", manifests+"search.yaml"); err != nil {
		return err
	}
	if err := g.await(ctx, soon, "the claim is refused with numbers", func(ctx context.Context) (bool, string, error) {
		o, err := g.admin.Get(ctx, claims, teamB, search)
		if err != nil {
			return false, "", err
		}
		admitted := kube.ConditionOf(o, "Admitted")
		if admitted.Status == "True" {
			return false, "", errors.New("the claim was admitted, which takes more than the quota")
		}
		return admitted.Reason == "QuotaExceeded", strings.TrimSuffix(admitted.Reason+": "+admitted.Message, ": "), nil
	}); err != nil {
		return err
	}
	return g.show(ctx, teamB, "-n", teamB, "get", "cbp", search)
}

func (g *guide) shrink(ctx context.Context) error {
	g.title("Team A shrinks to 24 cpus. Team B gets them when the machines are really gone")
	patch := `[{"op":"replace","path":"/spec/pools/1/count","value":5}]`
	if err := g.kubectl(ctx, teamA, "-n", teamA, "patch", "cbp", shop, "--type=json", "-p", patch); err != nil {
		return err
	}
	const left = 6
	if err := g.await(ctx, afterDrain, "team B is admitted", func(ctx context.Context) (bool, string, error) {
		o, err := g.admin.Get(ctx, claims, teamB, search)
		if err != nil {
			return false, "", err
		}
		machines, err := g.countMachines(ctx, teamA, shop)
		if err != nil {
			return false, "", err
		}
		admitted := kube.ConditionOf(o, "Admitted")
		if admitted.Status == "True" && machines > left {
			return false, "", fmt.Errorf("team B was admitted while team A still had %d machines", machines)
		}
		return admitted.Status == "True", fmt.Sprintf("team A has %d machines, team B is %s", machines, admitted.Reason), nil
	}); err != nil {
		return err
	}
	if err := g.awaitClaim(ctx, teamB, search, "Ready"); err != nil {
		return err
	}
	return g.show(ctx, stack.Platform, "get", "cbp", "-A")
}

func (g *guide) release(ctx context.Context) error {
	g.title("Team B deletes its cluster. Its quota returns after the last machine")
	xr, err := g.composite(ctx, teamB, search)
	if err != nil {
		return err
	}
	if err := g.kubectl(ctx, teamB, "-n", teamB, "delete", "cbp", search, "--wait=false"); err != nil {
		return err
	}
	const kept = 24
	if err := g.await(ctx, afterDrain, "the quota is back", func(ctx context.Context) (bool, string, error) {
		// Machines first: they may only become fewer until the ledger is read.
		left, err := g.machinesOf(ctx, xr)
		if err != nil {
			return false, "", err
		}
		reserved, err := g.reservedCPU(ctx)
		if err != nil {
			return false, "", err
		}
		if reserved < kept+nodeCPU*left {
			return false, "", fmt.Errorf("%d cpus are reserved while team B has %d machines", reserved, left)
		}
		return reserved == kept, fmt.Sprintf("team B has %d machines, %d cpus are reserved", left, reserved), nil
	}); err != nil {
		return err
	}
	return g.show(ctx, stack.Platform, "get", "ibp", infra)
}

// clear what an earlier run left.
func (g *guide) clear(ctx context.Context) error {
	if _, err := g.admin.Get(ctx, infras, "", infra); apierrors.IsNotFound(err) {
		return nil
	}
	g.printf("\nWaiting until the quota that an earlier run used is back.\n")
	for team, claim := range map[string]string{teamA: shop, teamB: search} {
		if err := g.admin.Delete(ctx, claims, team, claim); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return kube.Wait(ctx, afterDrain, func(ctx context.Context) error {
		for team, claim := range map[string]string{teamA: shop, teamB: search} {
			if _, err := g.admin.Get(ctx, claims, team, claim); !apierrors.IsNotFound(err) {
				return fmt.Errorf("claim %s of an earlier run is still there: %w", claim, err)
			}
		}
		if o, err := g.admin.Get(ctx, infras, "", infra); err == nil {
			if grants, _, _ := unstructured.NestedSlice(o.Object, "status", "ledger", "grants"); len(grants) > 0 {
				return errors.New("the quota of an earlier run is not back yet")
			}
		}
		return nil
	})
}

func (g *guide) printf(format string, args ...any) {
	fmt.Fprintf(g.out, format, args...) //nolint:errcheck // A terminal that went away ends the program.
}

func (g *guide) title(text string) {
	g.chapter++
	g.printf("\n%d. %s\n\n", g.chapter, text)
}

// kubectl as a user, its command and output shown.
func (g *guide) kubectl(ctx context.Context, user string, args ...string) error {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = arg
		if strings.ContainsAny(arg, `{[" `) {
			quoted[i] = "'" + arg + "'"
		}
	}
	g.printf("%s$ kubectl %s\n", user, strings.Join(quoted, " "))
	cmd := exec.CommandContext(ctx, g.stack.Kubectl(), args...)
	cmd.Dir = g.stack.Root()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+g.stack.Kubeconfig(user))
	out, err := cmd.CombinedOutput()
	g.printf("%s\n", out)
	if err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// show runs kubectl and draws the usage.
func (g *guide) show(ctx context.Context, user string, args ...string) error {
	if err := g.kubectl(ctx, user, args...); err != nil {
		return err
	}
	o, err := g.admin.Get(ctx, infras, "", infra)
	if err != nil {
		return err
	}
	table, err := usage(o)
	if err != nil {
		return err
	}
	g.printf("%s", table)
	return nil
}

// await a state, each change of which is shown.
func (g *guide) await(ctx context.Context, limit time.Duration, what string, check func(context.Context) (bool, string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begun := time.Now()
	for {
		done, state, err := check(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("waited %s until %s; last seen: %s", limit, what, g.lastState)
		case err != nil:
			return err
		case state != g.lastState && state != "":
			g.lastState = state
			g.printf("  %5.1fs  %s\n", time.Since(begun).Seconds(), state)
		}
		if done {
			g.printf("  %5.1fs  %s\n\n", time.Since(begun).Seconds(), what)
			return nil
		}
		const pause = 100 * time.Millisecond
		time.Sleep(pause)
	}
}

func (g *guide) awaitClaim(ctx context.Context, team, claim, condition string) error {
	return g.await(ctx, soon, "the claim is "+condition, func(ctx context.Context) (bool, string, error) {
		o, err := g.admin.Get(ctx, claims, team, claim)
		if err != nil {
			return false, "", err
		}
		admitted, provisioned := kube.ConditionOf(o, "Admitted"), kube.ConditionOf(o, "Provisioned")
		if provisioned.Message != "" {
			provisioned.Reason += ": " + shorten(provisioned.Message)
		}
		return kube.ConditionOf(o, condition).Status == "True", strings.Trim(admitted.Reason+", "+provisioned.Reason, ", "), nil
	})
}

// shorten a message that lists many machines.
func shorten(message string) string {
	const most = 120
	if runes := []rune(message); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return message
}

// composite name of a claim, which is the name of the Rancher cluster.
func (g *guide) composite(ctx context.Context, team, claim string) (string, error) {
	o, err := g.admin.Get(ctx, claims, team, claim)
	if err != nil {
		return "", err
	}
	name, _, _ := unstructured.NestedString(o.Object, "spec", "resourceRef", "name")
	return name, nil
}

func (g *guide) countMachines(ctx context.Context, team, claim string) (int, error) {
	name, err := g.composite(ctx, team, claim)
	if err != nil {
		return 0, err
	}
	return g.machinesOf(ctx, name)
}

func (g *guide) machinesOf(ctx context.Context, cluster string) (int, error) {
	found, err := g.machines.List(ctx, "machines.cluster.x-k8s.io", "fleet-default", provisioner.LabelCluster+"="+cluster)
	return len(found), err
}

func (g *guide) reservedCPU(ctx context.Context) (int, error) {
	o, err := g.admin.Get(ctx, infras, "", infra)
	if err != nil {
		return 0, err
	}
	shown, _, _ := unstructured.NestedString(o.Object, "status", "usage", "cpu")
	var reserved, limit int
	if _, err := fmt.Sscanf(shown, "%d/%d", &reserved, &limit); err != nil {
		return 0, fmt.Errorf("cannot read status.usage.cpu %q: %w", shown, err)
	}
	return reserved, nil
}
