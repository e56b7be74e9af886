package stack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestComponentOf(t *testing.T) {
	cases := map[string]struct {
		reason      string
		environment string
		want        string
		ours        bool
	}{
		"Ours":         {"The marker with our folder names the component.", "A=b\x00RIG_CONTROLPLANE=/x/dev#etcd\x00C=d\x00", "etcd", true},
		"OtherStack":   {"A component of another stack is a stranger.", "RIG_CONTROLPLANE=/x/e2e#etcd\x00", "", false},
		"LongerFolder": {"So is one whose folder only begins like ours.", "RIG_CONTROLPLANE=/x/dev2#etcd\x00", "", false},
		"InAValue":     {"A value of another variable does not count.", "A=RIG_CONTROLPLANE=/x/dev#etcd\x00", "", false},
		"Nothing":      {"A process that ended has no environment.", "", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ours := componentOf([]byte(tc.environment), "/x/dev")
			if got != tc.want || ours != tc.ours {
				t.Errorf("%s\ncomponentOf(...): want %q %t, got %q %t", tc.reason, tc.want, tc.ours, got, ours)
			}
		})
	}
}

// sleeping is a stack whose only program is sleep.
func sleeping(t *testing.T) *Stack {
	t.Helper()
	root := t.TempDir()
	s := &Stack{Dir: filepath.Join(root, ".cache", "controlplane", "test"), root: root, options: Options{Log: &strings.Builder{}}}
	for _, dir := range []string{filepath.Join(root, ".cache", "bin"), filepath.Join(s.Dir, "logs")} {
		if err := os.MkdirAll(dir, folder); err != nil {
			t.Fatal(err)
		}
	}
	install(t, s)
	t.Cleanup(func() {
		running, err := processes(s.Dir)
		if err != nil {
			t.Error(err)
		}
		for _, p := range running {
			if err := s.stop(p); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// install a new copy of sleep.
func install(t *testing.T, s *Stack) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep:", err)
	}
	raw, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.binary("sleep")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.binary("sleep"), raw, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestProcesses(t *testing.T) {
	s := sleeping(t)
	for _, name := range []string{"first", "second"} {
		if err := s.start(component{name: name, binary: "sleep", args: []string{"60"}}); err != nil {
			t.Fatal(err)
		}
		// The clock of start times ticks every 10 ms.
		time.Sleep(20 * time.Millisecond)
	}
	// A stranger: the same program with the same arguments, of nobody's stack.
	stranger := exec.CommandContext(t.Context(), s.binary("sleep"), "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stranger.Process.Kill() //nolint:errcheck // It may have ended.
		stranger.Wait()         //nolint:errcheck // It was killed.
	}()

	see := func(want ...process) []process {
		t.Helper()
		got, err := processes(s.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(process{}), cmpopts.IgnoreFields(process{}, "pid", "started"), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("processes(...): -want, +got:\n%s", diff)
		}
		return got
	}
	args := []string{s.binary("sleep"), "60"}
	running := see(process{component: "first", args: args}, process{component: "second", args: args})

	install(t, s)
	see(process{component: "first", args: args, outdated: true}, process{component: "second", args: args, outdated: true})

	// A process that took over the id of one of ours is not it.
	reused := running[0]
	reused.started--
	if err := s.stop(reused); err != nil {
		t.Fatal(err)
	}
	see(process{component: "first", args: args, outdated: true}, process{component: "second", args: args, outdated: true})

	if err := s.Down(); err != nil {
		t.Fatal(err)
	}
	see()
	if told := fmt.Sprint(s.options.Log); strings.Index(told, "second") > strings.Index(told, "first") {
		t.Errorf("the newest must be stopped first:\n%s", told)
	}
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(stranger.Process.Pid))); err != nil {
		t.Errorf("a stranger was ended: %v", err)
	}
}

// TestStartedIsSeen starts processes and looks at once: none is taken for one that ended.
func TestStartedIsSeen(t *testing.T) {
	s := sleeping(t)
	const rounds = 50
	for i := range rounds {
		name := strconv.Itoa(i)
		if err := s.start(component{name: name, binary: "sleep", args: []string{"60"}}); err != nil {
			t.Fatal(err)
		}
		running, err := processes(s.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(running) != i+1 {
			t.Fatalf("%d processes are seen right after the start of number %d", len(running), i+1)
		}
	}
	if err := s.start(component{name: "short", binary: "sleep", args: []string{"0"}}); err != nil {
		t.Fatal(err)
	}
}

// TestKill kills a component that does not end when it is asked to.
func TestKill(t *testing.T) {
	s := sleeping(t)
	for _, name := range []string{"stubborn", "other"} {
		if err := s.start(component{name: name, binary: "sleep", args: []string{"60"}}); err != nil {
			t.Fatal(err)
		}
	}
	running, err := processes(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	stubborn := running[slices.IndexFunc(running, func(p process) bool { return p.component == "stubborn" })]
	// A process that is stopped obeys no signal but this one.
	if err := syscall.Kill(stubborn.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := s.Kill("stubborn"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > stopTimeout/2 {
		t.Errorf("it took %s: it was asked to end first", took)
	}
	if running, err = processes(s.Dir); err != nil || len(running) != 1 || running[0].component != "other" {
		t.Errorf("want only the other component to run, got %v, %v", running, err)
	}
	if err := s.Kill("stubborn"); err != nil {
		t.Errorf("cannot kill what does not run: %v", err)
	}
}
