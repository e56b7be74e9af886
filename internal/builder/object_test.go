package builder

import (
	"testing"

	"github.com/google/cel-go/cel"
)

// The query is evaluated the way provider-kubernetes does: object is of any type, and the result must be a bool.
func TestReadyQuery(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("object", cel.AnyType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(readyQuery)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	if ast.OutputType() != cel.BoolType {
		t.Fatalf("the query is of type %s", ast.OutputType())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}

	condition := func(conditionType, status string) any { return values{"type": conditionType, "status": status} }
	allTrue := []any{
		condition("Provisioned", "True"), condition("Waiting", "True"), condition("Pending", "True"), condition("Updated", "True"), condition("Ready", "True"),
	}
	metadata := values{"name": "dev", "generation": int64(4)}
	cases := map[string]struct {
		reason string
		object values
		want   bool
	}{
		"Ready":       {reason: "Everything says so.", object: values{"metadata": metadata, "status": values{"ready": true, "observedGeneration": int64(4), "conditions": allTrue}}, want: true},
		"ReadyFloats": {reason: "Numbers of a decoded status may be floats.", object: values{"metadata": values{"generation": 4.0}, "status": values{"ready": true, "observedGeneration": 4.0, "conditions": allTrue}}, want: true},
		"ReadyMixed":  {reason: "Numbers of two kinds compare.", object: values{"metadata": metadata, "status": values{"ready": true, "observedGeneration": 4.0, "conditions": allTrue}}, want: true},
		"Deleting":    {reason: "Rancher forces Updated and Provisioned to True while it deletes.", object: values{"metadata": values{"generation": int64(4), "deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": values{"ready": true, "observedGeneration": int64(4), "conditions": allTrue}}},
		"Stale":       {reason: "The status is of the generation before.", object: values{"metadata": metadata, "status": values{"ready": true, "observedGeneration": int64(3), "conditions": allTrue}}},
		"NoStatus":    {reason: "Rancher has not seen it.", object: values{"metadata": metadata}},
		"EmptyStatus": {reason: "Rancher has just seen it.", object: values{"metadata": metadata, "status": values{}}},
		"NoGeneration": {
			reason: "Which generation was seen is not known.", object: values{"metadata": metadata, "status": values{"ready": true, "conditions": allTrue}},
		},
		"NoConditions": {reason: "Only the sticky field is there.", object: values{"metadata": metadata, "status": values{"ready": true, "observedGeneration": int64(4)}}},
		"Sticky": {
			reason: "status.ready is never taken back.",
			object: values{"metadata": metadata, "status": values{"ready": true, "observedGeneration": int64(4), "conditions": []any{condition("Ready", "False"), condition("Updated", "True")}}},
		},
		"Updating": {
			reason: "Machines are being replaced.",
			object: values{"metadata": metadata, "status": values{"ready": true, "observedGeneration": int64(4), "conditions": []any{condition("Ready", "True"), condition("Updated", "Unknown")}}},
		},
		"NeverConnected": {
			reason: "Conditions may be True before the cluster has connected.",
			object: values{"metadata": metadata, "status": values{"ready": false, "observedGeneration": int64(4), "conditions": allTrue}},
		},
		"NoReady":        {reason: "The field is missing until then.", object: values{"metadata": metadata, "status": values{"observedGeneration": int64(4), "conditions": allTrue}}},
		"OtherCondition": {reason: "A condition of another type does not count.", object: values{"metadata": metadata, "status": values{"ready": true, "observedGeneration": int64(4), "conditions": []any{condition("Connected", "True"), condition("Updated", "True")}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, _, err := program.Eval(values{"object": tc.object})
			if err != nil {
				t.Fatalf("%s\nEval(...): %v: the Object would not be reconciled", tc.reason, err)
			}
			if got.Value() != tc.want {
				t.Errorf("%s\nEval(...) = %v, want %v", tc.reason, got.Value(), tc.want)
			}
		})
	}
}
