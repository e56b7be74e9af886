package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Ports are taken from below the range that Linux takes outgoing ports from (32768 and up), so that a connection of
// somebody else cannot sit on one before its program starts.
const (
	firstPort = 21000
	lastPort  = 29999
)

// ports of one stack by what they are for. They are kept as long as its data is: kubeconfigs name them.
type ports map[string]int

// address of a port.
func (p ports) address(name string) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(p[name]))
}

// pickPorts for names: the lowest that nobody else has and that are free.
func pickPorts(names []string, taken map[int]bool, free func(int) bool) (ports, error) {
	out, next := ports{}, firstPort
	for _, name := range names {
		for next <= lastPort && (taken[next] || !free(next)) {
			next++
		}
		if next > lastPort {
			return nil, fmt.Errorf("cannot find a free port for %s from %d to %d", name, firstPort, lastPort)
		}
		out[name] = next
		next++
	}
	return out, nil
}

// portFree says whether a program could listen on a port, on the loopback and on every other address: some programs
// here can only do the latter.
func portFree(port int) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port)) //nolint:noctx // Closed at once; it only asks.
	if err != nil {
		return false
	}
	return l.Close() == nil
}

const stateFile = "state.json"

// state of a stack that outlives a run of the program.
type state struct {
	Ports ports `json:"ports"`
}

func readState(dir string) (state, error) {
	var s state
	raw, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("cannot read %s: %w", filepath.Join(dir, stateFile), err)
	}
	return s, nil
}

// write whole or not at all, since a run may be killed at any time.
func (s state) write(dir string) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, stateFile)
	if err := os.WriteFile(path+".new", raw, private); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// takenPorts are those of the other stacks beside dir, running or not.
func takenPorts(dir string) (map[int]bool, error) {
	taken := map[int]bool{}
	others, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*"))
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		s, err := readState(other)
		if errors.Is(err, fs.ErrNotExist) || other == dir {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, port := range s.Ports {
			taken[port] = true
		}
	}
	return taken, nil
}
