package strategies

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// Check a value with a function that returns what is wrong with it, such as those of apimachinery's validation.
func Check(path *field.Path, value string, check func(string) []string) (errs field.ErrorList) {
	for _, message := range check(value) {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

// InfrastructureProviderConfig is the name of the ProviderConfig that an InfraBlueprint reaches its infrastructure with. Where it
// names none, the error says what one is needed for: "provider-x that makes y".
func InfrastructureProviderConfig(infra v1alpha1.InfraBlueprintSpec, purpose string) (string, *field.Error) {
	ref := infra.Credentials.InfrastructureProviderConfigRef
	if ref == nil || ref.Name == "" {
		return "", field.Required(field.NewPath("spec", "credentials", "infrastructureProviderConfigRef"), "name the ProviderConfig of "+purpose)
	}
	return ref.Name, nil
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
