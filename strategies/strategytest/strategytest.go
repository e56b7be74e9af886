// Package strategytest checks what every strategy promises.
package strategytest

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/strategies"
)

// Pure checks that runs give the same bytes, and that none shares memory with its input or with another.
func Pure(t *testing.T, open strategies.Open, blueprint json.RawMessage, scope strategies.Scope) {
	t.Helper()
	before, untouched := slices.Clone(blueprint), Encode(t, scope)
	s, err := open(blueprint)
	if err != nil {
		t.Fatal(err)
	}
	run := func() []byte {
		out, err := s.Cluster(scope)
		if err != nil {
			t.Fatal(err)
		}
		encoded := Encode(t, out)
		scribble(out.Values)
		for _, r := range out.Resources {
			scribble(map[string]any(r))
		}
		return encoded
	}
	first := run()
	for range 20 {
		if second := run(); !bytes.Equal(first, second) {
			t.Fatalf("Cluster(...): got\n%s\nthen\n%s", first, second)
		}
	}
	if diff := cmp.Diff(string(untouched), string(Encode(t, scope))); diff != "" {
		t.Errorf("Cluster(...): the input changed: -before, +after:\n%s", diff)
	}
	if !bytes.Equal(before, blueprint) {
		t.Errorf("Open(...): the blueprint changed:\n%s", blueprint)
	}
}

// Encode a value as JSON, such as the blueprint that a strategy is opened with.
func Encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// scribble over everything below a value.
func scribble(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			scribble(v[k])
			v[k] = "scribbled"
		}
	case []any:
		for i := range v {
			scribble(v[i])
			v[i] = "scribbled"
		}
	}
}
