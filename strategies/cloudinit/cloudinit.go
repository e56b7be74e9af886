// Package cloudinit merges the cloud-init user data of nodes.
package cloudinit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// header tells cloud-init what the user data is.
const header = "#cloud-config"

var (
	errHeader    = errors.New("must be cloud-config YAML: the only header allowed is " + header)
	errDocuments = errors.New("must be one YAML document: neither --- nor ... may follow its start")
	errNoMap     = errors.New("must be a YAML map")
	errNoList    = errors.New("must be a list, since the node driver appends to it")
)

// Merge cloud-config YAML over a base: maps merge, lists append, everything else replaces. The result is the same for the
// same input, and starts with its header. Keys that are named as lists must be lists where they are set. Errors do not
// quote values, which may be secret.
func Merge(base, over string, lists ...string) (string, error) {
	merged, err := parse(base)
	if err != nil {
		return "", err
	}
	changes, err := parse(over)
	if err != nil {
		return "", err
	}
	mergeMaps(merged, changes)
	for _, key := range lists {
		if _, isList := merged[key].([]any); merged[key] != nil && !isList {
			return "", fmt.Errorf("%s: %w", key, errNoList)
		}
	}
	text, err := yaml.Marshal(merged)
	if err != nil {
		return "", fmt.Errorf("cannot write cloud-config: %w", err)
	}
	return header + "\n" + string(text), nil
}

// parse reads cloud-config YAML, with or without its header. Errors do not quote its values.
func parse(text string) (map[string]any, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if strings.HasPrefix(first, "#") && !strings.HasPrefix(first, "# ") && strings.TrimSpace(first) != header {
		return nil, errHeader
	}
	// The YAML library reads the first document and drops the others without a word.
	started := false
	for line := range strings.Lines(text) {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || trimmed[0] == '#':
		case started && (strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...")):
			return nil, errDocuments
		default:
			started = true
		}
	}
	doc, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("cannot read YAML: %w", err)
	}
	// Numbers keep their digits.
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("cannot read YAML: %w", err)
	}
	switch v := value.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	}
	return nil, errNoMap
}

// mergeMaps changes into, whose maps and lists it owns.
func mergeMaps(into, changes map[string]any) {
	for k, change := range changes {
		switch c := change.(type) {
		case map[string]any:
			if m, ok := into[k].(map[string]any); ok {
				mergeMaps(m, c)
				continue
			}
		case []any:
			if l, ok := into[k].([]any); ok {
				into[k] = append(l, c...)
				continue
			}
		}
		into[k] = change
	}
}
