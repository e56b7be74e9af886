// Package stack runs a whole Crossplane control plane on this machine, without containers: etcd, two Kubernetes API
// servers, Crossplane, its providers, the function, and what stands in for Rancher and Harvester. Everything listens on
// the loopback where the programs allow it; everything that it writes is in one folder.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
)

const (
	readyTimeout = 2 * time.Minute
	logTail      = 15
)

// Options of a stack.
type Options struct {
	// Name of the stack. Stacks of different names run beside each other.
	Name string
	// CreateDelay and DeleteDelay are how long a machine takes to come and to go. 3 s each when left out.
	CreateDelay, DeleteDelay time.Duration
	// Packages has Crossplane's package manager install the product, as docs/install.md says, from packages that are built
	// and pushed to the stack's registry. Without it, what the packages hold is applied, which is faster. A package is not
	// installed again under its version: after a change of the sources, Up is for a stack that is down.
	Packages bool
	// Log tells what is being done. Discarded when left out.
	Log io.Writer
}

// A Stack is one control plane.
type Stack struct {
	// Dir holds everything that the stack writes.
	Dir string

	root    string
	options Options
	ports   ports
	begun   time.Time

	mu      sync.Mutex
	clients map[string]*kube.Client
	// functions are the addresses of versions of the function beside the stack's own, by image.
	functions map[string]string
}

// Open a stack, running or not, of the repository that the working folder is in.
func Open(o Options) (*Stack, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	const delay = 3 * time.Second
	if o.CreateDelay == 0 {
		o.CreateDelay = delay
	}
	if o.DeleteDelay == 0 {
		o.DeleteDelay = delay
	}
	s := &Stack{
		Dir: filepath.Join(root, ".cache", "controlplane", o.Name), root: root, options: o, begun: time.Now(),
		clients: map[string]*kube.Client{}, functions: map[string]string{},
	}
	return s, s.load()
}

// findRoot of the repository.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "hack", "controlplane")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("cannot find the repository: run this inside it")
		}
	}
}

// LogFile of a component.
func (s *Stack) LogFile(component string) string {
	return filepath.Join(s.Dir, "logs", component+".log")
}

// Up brings everything up, or what is missing of it, and returns when it works. Running it again is harmless: what was
// built anew is started again, and everything that is installed is applied again.
func (s *Stack) Up(ctx context.Context) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.build(ctx); err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return fmt.Errorf("cannot prepare %s: %w", s.Dir, err)
	}
	for _, stage := range s.stages() {
		if err := s.ensure(ctx, stage.components); err != nil {
			return err
		}
		if stage.install == nil {
			continue
		}
		if err := stage.install(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Down ends what Up started, newest first, and removes its data. Logs stay until the next Up.
func (s *Stack) Down() error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	running, err := processes(s.Dir)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(running) {
		if err := s.stop(p); err != nil {
			return err
		}
		s.sayf("%-25s stopped", p.component)
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == "logs" || entry.Name() == "lock" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.Dir, entry.Name())); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports, s.clients, s.functions = nil, map[string]*kube.Client{}, map[string]string{}
	return nil
}

// Stop a component. The others go on without it.
func (s *Stack) Stop(name string) error { return s.endComponent(name, s.stop) }

// Kill a component with SIGKILL, so that it cannot finish anything. The others go on without it.
func (s *Stack) Kill(name string) error {
	return s.endComponent(name, func(p process) error { return s.end(p, syscall.SIGKILL) })
}

// Start a component that was stopped, and wait until it is ready.
func (s *Stack) Start(ctx context.Context, name string) error {
	components := s.components()
	at := slices.IndexFunc(components, func(c component) bool { return c.name == name })
	if at < 0 {
		return fmt.Errorf("there is no component %q", name)
	}
	return s.ensure(ctx, components[at:at+1])
}

// Restart a component.
func (s *Stack) Restart(ctx context.Context, name string) error {
	if err := s.Stop(name); err != nil {
		return err
	}
	return s.Start(ctx, name)
}

// A Status is how one component is.
type Status struct {
	Component string
	// PID is zero when it does not run.
	PID int
	// State is stopped, ready, or what it lacks.
	State string
	// MemoryMiB that is resident.
	MemoryMiB int
	About     string
}

// Status of every component.
func (s *Stack) Status(ctx context.Context) ([]Status, error) {
	running, err := processes(s.Dir)
	if err != nil {
		return nil, err
	}
	var out []Status
	for _, c := range s.components() {
		status := Status{Component: c.name, State: "stopped"}
		for _, p := range running {
			if p.component != c.name {
				continue
			}
			status.PID, status.State, status.MemoryMiB, status.About = p.pid, "ready", residentMiB(p.pid), c.about
			if c.ready == nil {
				status.State = "running"
				continue
			}
			probe, cancel := context.WithTimeout(ctx, time.Second)
			if err := c.ready(probe); err != nil {
				status.State = "not ready: " + err.Error()
			}
			cancel()
		}
		out = append(out, status)
	}
	return out, nil
}

// Root of the repository.
func (s *Stack) Root() string { return s.root }

// FunctionCertificates is the folder with what a function needs to be called by Crossplane: tls.crt and tls.key, and
// ca.crt to know Crossplane by.
func (s *Stack) FunctionCertificates() string { return s.pki(functions) }

// FunctionMetrics is the URL of the function's metrics.
func (s *Stack) FunctionMetrics() string {
	return "http://" + s.ports.address("function-metrics") + "/metrics"
}

// ChartRepository is where the cluster chart is.
func (s *Stack) ChartRepository() string {
	return "oci://" + s.Registry() + "/" + chartPath
}

// Kubectl is the program of that name.
func (s *Stack) Kubectl() string { return s.binary("kubectl") }

func (s *Stack) endComponent(name string, end func(process) error) error {
	running, err := processes(s.Dir)
	if err != nil {
		return err
	}
	for _, p := range running {
		if p.component == name {
			return end(p)
		}
	}
	return nil
}

// binary of a name in .cache/bin, or at a path.
func (s *Stack) binary(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.root, ".cache", "bin", name)
}

func (s *Stack) sayf(format string, args ...any) {
	fmt.Fprintf(s.options.Log, "%6.1fs  %s\n", time.Since(s.begun).Seconds(), fmt.Sprintf(format, args...)) //nolint:errcheck // What is told is not what is done.
}

// lock the stack against other runs of this program, and read what they have left. A run that is killed lets go of it.
func (s *Stack) lock() (func(), error) {
	if err := os.MkdirAll(filepath.Join(s.Dir, "logs"), folder); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_CREATE|os.O_RDWR, private)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		s.sayf("another run is at work on %s, waiting for it", s.options.Name)
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
			return nil, fmt.Errorf("cannot lock %s: %w", file.Name(), err)
		}
	}
	return func() { file.Close() }, s.load() //nolint:errcheck // Closing unlocks.
}

// load the state that is written.
func (s *Stack) load() error {
	written, err := readState(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.ports = written.Ports
	return nil
}

// prepare ports and certificates, once per life of the stack's data. State is written last, so that a run that was
// killed before starts over.
func (s *Stack) prepare() error {
	if s.ports != nil {
		return nil
	}
	logs := filepath.Join(s.Dir, "logs")
	if err := os.RemoveAll(logs); err != nil {
		return err
	}
	if err := os.MkdirAll(logs, folder); err != nil {
		return err
	}
	taken, err := takenPorts(s.Dir)
	if err != nil {
		return err
	}
	if s.ports, err = pickPorts(portNames(), taken, portFree); err != nil {
		return err
	}
	if err := s.certify(); err != nil {
		return err
	}
	return state{Ports: s.ports}.write(s.Dir)
}

// ensure that components run as they should, and wait until they are ready.
func (s *Stack) ensure(ctx context.Context, components []component) error {
	running, err := processes(s.Dir)
	if err != nil {
		return err
	}
	for _, c := range components {
		at := slices.IndexFunc(running, func(p process) bool { return p.component == c.name })
		if at >= 0 {
			if p := running[at]; !p.outdated && slices.Equal(p.args[1:], c.args) {
				continue
			}
			s.sayf("%s has changed, starting it again", c.name)
			if err := s.stop(running[at]); err != nil {
				return err
			}
		}
		if err := s.start(c); err != nil {
			return err
		}
	}
	for _, c := range components {
		if err := s.await(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// await the readiness of a component.
func (s *Stack) await(ctx context.Context, c component) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	died := false
	err := kube.Wait(ctx, readyTimeout, func(ctx context.Context) error {
		running, err := processes(s.Dir)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(running, func(p process) bool { return p.component == c.name }) {
			died = true
			cancel()
			return errors.New("it ended")
		}
		if c.ready == nil {
			return nil
		}
		return c.ready(ctx)
	})
	switch {
	case died:
		return fmt.Errorf("cannot start %s: it ended; the end of %s:\n%s", c.name, s.LogFile(c.name), s.tail(c.name))
	case err != nil:
		return fmt.Errorf("%s is not ready: %w; the end of %s:\n%s", c.name, err, s.LogFile(c.name), s.tail(c.name))
	}
	s.sayf("%-25s ready, %s", c.name, c.about)
	return nil
}

func (s *Stack) tail(component string) string {
	raw, err := os.ReadFile(s.LogFile(component))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-logTail):], "\n  ")
}
