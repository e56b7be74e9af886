package stack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// marker is set in the environment of every process that a stack starts, to the stack's folder and the component's
// name. A process is ours if and only if its environment says so. So nothing has to be written down that could be lost
// when a run is killed, or be wrong when a process id is used again.
const marker = "RIG_CONTROLPLANE"

const (
	stopTimeout = 15 * time.Second
	pollProcess = 20 * time.Millisecond

	// garbage is how much of it a program collects before it looks for more, in percent of what it uses: Go's default of
	// 100 takes a good part of two processors.
	garbage = "400"

	// startTimeField is the index of the start time in /proc/PID/stat, counted behind the name of the program, which
	// may hold anything.
	startTimeField = 19
)

// A process of a stack.
type process struct {
	component string
	pid       int
	// started in clock ticks since boot.
	started uint64
	args    []string
	// outdated says that its program was built anew since it started.
	outdated bool
}

// processes of the stack in a folder, oldest first.
func processes(dir string) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var out []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, ok := inspect(pid, dir); ok {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b process) int {
		if a.started == b.started {
			return a.pid - b.pid
		}
		if a.started < b.started {
			return -1
		}
		return 1
	})
	return out, nil
}

// inspect a process: whether it is of the stack in a folder, and which. One that ends meanwhile is none.
func inspect(pid int, dir string) (process, bool) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	environment, err := os.ReadFile(filepath.Join(proc, "environ"))
	if err != nil {
		return process{}, false
	}
	component, ours := componentOf(environment, dir)
	if !ours {
		return process{}, false
	}
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return process{}, false
	}
	arguments, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return process{}, false
	}
	executable, err := os.Readlink(filepath.Join(proc, "exe"))
	if err != nil {
		return process{}, false
	}
	p := process{component: component, pid: pid, outdated: strings.HasSuffix(executable, " (deleted)")}
	p.args = strings.Split(strings.TrimSuffix(string(arguments), "\x00"), "\x00")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= startTimeField {
		return process{}, false
	}
	p.started, err = strconv.ParseUint(fields[startTimeField], 10, 64)
	return p, err == nil
}

// componentOf the stack in a folder, by the environment of a process.
func componentOf(environment []byte, dir string) (string, bool) {
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if name, ok := strings.CutPrefix(string(variable), marker+"="+dir+"#"); ok {
			return name, true
		}
	}
	return "", false
}

// start a component so that it outlives this program. Its output is appended to its log.
func (s *Stack) start(c component) error {
	log, err := os.OpenFile(s.LogFile(c.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, private)
	if err != nil {
		return fmt.Errorf("cannot open the log of %s: %w", c.name, err)
	}
	defer log.Close() //nolint:errcheck // The process has a descriptor of its own.
	work := filepath.Join(s.Dir, "work", c.name)
	if err := os.MkdirAll(work, folder); err != nil {
		return fmt.Errorf("cannot start %s: %w", c.name, err)
	}
	cmd := exec.Command(s.binary(c.binary), c.args...) //nolint:noctx // It outlives every context.
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + work, "GOGC=" + garbage, marker + "=" + s.Dir + "#" + c.name}, c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", c.name, err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // Only so that it does not stay a zombie; its log says why it ended.
		close(ended)
	}()
	return s.recognise(cmd.Process.Pid, ended)
}

// recognise a process that was started, or see it end: its environment can be read only some time after its start.
func (s *Stack) recognise(pid int, ended <-chan struct{}) error {
	for {
		if _, ours := inspect(pid, s.Dir); ours {
			return nil
		}
		select {
		case <-ended:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

// stop a process and wait until it is gone.
func (s *Stack) stop(p process) error { return s.end(p, syscall.SIGTERM, syscall.SIGKILL) }

// end a process with the first signal that it obeys, and wait until it is gone.
func (s *Stack) end(p process, signals ...os.Signal) error {
	// The handle refers to this very process even if it ends and its id is used again. So does the check after it.
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return fmt.Errorf("cannot find %s: %w", p.component, err)
	}
	defer handle.Release() //nolint:errcheck // Nothing depends on it.
	alive := func() bool {
		now, ours := inspect(p.pid, s.Dir)
		return ours && now.started == p.started
	}
	for _, signal := range signals {
		if !alive() {
			return nil
		}
		if err := handle.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("cannot stop %s: %w", p.component, err)
		}
		for deadline := time.Now().Add(stopTimeout); alive() && time.Now().Before(deadline); {
			time.Sleep(pollProcess)
		}
	}
	if alive() {
		return fmt.Errorf("cannot stop %s: process %d is still there", p.component, p.pid)
	}
	return nil
}

// residentMiB is the memory of a process, zero if it ended.
func residentMiB(pid int) int {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	const resident, mebibyte = 1, 1 << 20
	if len(fields) <= resident {
		return 0
	}
	pages, err := strconv.Atoi(fields[resident])
	if err != nil {
		return 0
	}
	return pages * os.Getpagesize() / mebibyte
}
