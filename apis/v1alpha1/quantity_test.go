package v1alpha1

import (
	"encoding/json"
	"testing"
)

func TestQuantityJSON(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     string
		want   Quantity
		err    bool
	}{
		"String":    {reason: "A quantity stays as it was written.", in: `"16Gi"`, want: "16Gi"},
		"Number":    {reason: "A bare integer is accepted.", in: `4`, want: "4"},
		"Large":     {reason: "Digits are kept, also those that a float would lose.", in: `9007199254740993`, want: "9007199254740993"},
		"Negative":  {reason: "Whoever reads it refuses it, with a path.", in: `-1`, want: "-1"},
		"Fraction":  {reason: "Whoever reads it decides.", in: `0.5`, want: "0.5"},
		"Exponent":  {reason: "Whoever reads it refuses it, with a path.", in: `1e3`, want: "1e3"},
		"Null":      {reason: "Null is nothing.", in: `null`, want: ""},
		"Escaped":   {reason: "A string is JSON.", in: `"1\u0036Gi"`, want: "16Gi"},
		"NoNumber":  {reason: "Text is kept for the error message.", in: `"lots"`, want: "lots"},
		"Boolean":   {reason: "A boolean is no quantity.", in: `true`, err: true},
		"Map":       {reason: "A map is no quantity.", in: `{"cpu":"4"}`, err: true},
		"List":      {reason: "A list is no quantity.", in: `["4"]`, err: true},
		"Truncated": {reason: "Half a string is no JSON.", in: `"16`, err: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got Quantity
			err := json.Unmarshal([]byte(tc.in), &got)
			if (err != nil) != tc.err {
				t.Fatalf("%s\nUnmarshal(%s): error %v, want one: %v", tc.reason, tc.in, err, tc.err)
			}
			if got != tc.want {
				t.Errorf("%s\nUnmarshal(%s) = %q, want %q", tc.reason, tc.in, got, tc.want)
			}
		})
	}
}

// Crossplane's protobuf knows floats only; what is written must be a string.
func TestQuantityIsWrittenAsString(t *testing.T) {
	got, err := json.Marshal(NodeResources{CPU: "4", Memory: "16Gi", Disk: "9007199254740993"})
	if want := `{"cpu":"4","memory":"16Gi","disk":"9007199254740993"}`; err != nil || string(got) != want {
		t.Errorf("Marshal(...) = %s, %v, want %s", got, err, want)
	}
}
