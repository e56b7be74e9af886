package strategies

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Check a value with a function that returns what is wrong with it, such as those of apimachinery's validation.
func Check(path *field.Path, value string, check func(string) []string) (errs field.ErrorList) {
	for _, message := range check(value) {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

// Decode a blueprint of a kind, a whole object as JSON. The error names a field that is of another type.
func Decode(kind string, blueprint json.RawMessage, into any) error {
	err := json.Unmarshal(blueprint, into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		shape := wrong.Type.String()
		switch wrong.Type.Kind() { //nolint:exhaustive // Other kinds are called by their Go name.
		case reflect.Slice:
			shape = "list"
		case reflect.Struct, reflect.Map:
			shape = "map"
		}
		err = field.TypeInvalid(field.NewPath(wrong.Field), wrong.Value, "must be a "+shape)
	}
	if err != nil {
		return fmt.Errorf("cannot decode the %s: %w", kind, err)
	}
	return nil
}
