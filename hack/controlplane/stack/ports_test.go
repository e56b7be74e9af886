package stack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPickPorts(t *testing.T) {
	type want struct {
		ports  ports
		failed bool
	}
	cases := map[string]struct {
		reason string
		names  []string
		taken  map[int]bool
		busy   map[int]bool
		want   want
	}{
		"AllFree": {
			reason: "Without anybody else ports are the first ones, so they are the same every time.",
			names:  []string{"a", "b"},
			want:   want{ports: ports{"a": firstPort, "b": firstPort + 1}},
		},
		"Busy": {
			reason: "A port that somebody listens on is left out.",
			names:  []string{"a", "b"},
			busy:   map[int]bool{firstPort: true, firstPort + 2: true},
			want:   want{ports: ports{"a": firstPort + 1, "b": firstPort + 3}},
		},
		"Taken": {
			reason: "A port of another stack is left out even while nobody listens on it.",
			names:  []string{"a"},
			taken:  map[int]bool{firstPort: true},
			want:   want{ports: ports{"a": firstPort + 1}},
		},
		"Exhausted": {
			reason: "It is an error when there are none left.",
			names:  []string{"a"},
			busy: func() map[int]bool {
				all := map[int]bool{}
				for port := firstPort; port <= lastPort; port++ {
					all[port] = true
				}
				return all
			}(),
			want: want{failed: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := pickPorts(tc.names, tc.taken, func(port int) bool { return !tc.busy[port] })
			if diff := cmp.Diff(tc.want, want{got, err != nil}, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%s\npickPorts(...): -want, +got (%v):\n%s", tc.reason, err, diff)
			}
		})
	}
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	mine, other := filepath.Join(dir, "mine"), filepath.Join(dir, "other")
	for dir, s := range map[string]state{mine: {Ports: ports{"etcd": 21000}}, other: {Ports: ports{"etcd": 21007}}} {
		if err := os.MkdirAll(dir, folder); err != nil {
			t.Fatal(err)
		}
		if err := s.write(dir); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readState(mine)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state{Ports: ports{"etcd": 21000}}, got); diff != "" {
		t.Errorf("readState(...): -want, +got:\n%s", diff)
	}
	taken, err := takenPorts(mine)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int]bool{21007: true}, taken); diff != "" {
		t.Errorf("takenPorts(...) must be those of the others: -want, +got:\n%s", diff)
	}
}
