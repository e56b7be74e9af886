package strategies

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Check a value with a function that returns what is wrong with it, such as those of apimachinery's validation.
func Check(path *field.Path, value string, check func(string) []string) (errs field.ErrorList) {
	for _, message := range check(value) {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}
