package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// value at a path, nil when there is none.
func value(in *structpb.Struct, path ...string) *structpb.Value {
	for _, key := range path[:len(path)-1] {
		in = in.GetFields()[key].GetStructValue()
	}
	return in.GetFields()[path[len(path)-1]]
}

// isAbsent says whether a value is missing or null.
func isAbsent(v *structpb.Value) bool {
	_, null := v.GetKind().(*structpb.Value_NullValue)
	return v == nil || null
}

// text at a path, empty when there is none.
func text(in *structpb.Struct, path ...string) string {
	return value(in, path...).GetStringValue()
}

// integer at a path, zero when there is none. Revisions stay far below 2^53, where a protobuf number ends being exact.
func integer(in *structpb.Struct, path ...string) int64 {
	return int64(value(in, path...).GetNumberValue())
}

// timestamp at a path, zero when there is none.
func timestamp(in *structpb.Struct, path ...string) time.Time {
	t, err := time.Parse(time.RFC3339, text(in, path...))
	if err != nil {
		return time.Time{}
	}
	return t
}

// decode a value that is read as a whole. Errors name the field.
func decode(in *structpb.Value, into any) error {
	raw, err := protojson.Marshal(in)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// encode an object into plain maps, slices, strings, numbers and booleans, as protobuf takes them.
func encode(in any) (any, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(raw, &out)
}

// condition of one resource, as Crossplane and its providers write them.
type observedCondition struct {
	status, reason, message string
}

// conditionOf a resource; its status is empty when it has none of the type.
func conditionOf(in *structpb.Struct, conditionType string) observedCondition {
	for _, c := range value(in, "status", "conditions").GetListValue().GetValues() {
		s := c.GetStructValue()
		if text(s, "type") == conditionType {
			return observedCondition{status: text(s, "status"), reason: text(s, "reason"), message: text(s, "message")}
		}
	}
	return observedCondition{}
}

// isTrue says whether a resource has the condition with status True.
func isTrue(in *structpb.Struct, conditionType string) bool {
	return conditionOf(in, conditionType).status == "True"
}

// asStruct is an object as protobuf carries it.
func asStruct(in any) (*structpb.Struct, error) {
	plain, err := encode(in)
	if err != nil {
		return nil, err
	}
	object, ok := plain.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("cannot encode %T as an object", in)
	}
	return structpb.NewStruct(object)
}

// isGone says whether a provider's error means that the external resource does not exist (crossplane-runtime, managed
// reconciler, for resources that are only observed).
func isGone(message string) bool {
	return strings.Contains(message, "external resource does not exist")
}
