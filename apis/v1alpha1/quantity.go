package v1alpha1

import (
	"encoding/json"
	"errors"
	"strings"
)

// Quantity is a Kubernetes quantity such as "4", "500m" or 16Gi, kept as it was written. A bare integer is accepted
// too. It is read by internal/ledger, which names the field path when it does not parse.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Pattern=`^\+?[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`
type Quantity string

var errQuantityType = errors.New("a quantity is a string or a number")

// UnmarshalJSON accepts a string or a number, whose digits are kept as they are.
func (q *Quantity) UnmarshalJSON(b []byte) error {
	s := string(b)
	switch {
	case s == "null":
		return nil
	case strings.HasPrefix(s, `"`):
		return json.Unmarshal(b, (*string)(q))
	case s != "" && strings.ContainsRune("-0123456789", rune(s[0])):
		*q = Quantity(s)
		return nil
	}
	return errQuantityType
}
