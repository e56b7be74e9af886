package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// casesDir holds a folder per case.
const casesDir = "test/render"

// renderCase is what the engine is given for one render.
type renderCase struct {
	name        string
	description string

	// Paths of files. The last two are empty where the case has none.
	xr, composition, xrd string
	required, observed   string

	// function is the name by which the Composition calls the function.
	function string
}

// loadCase finds the files of a case: xr.yaml, whose first line is a comment
// that describes the case, and optionally composition.yaml, required.yaml and
// observed.yaml. The XRD, and a Composition that the case does not bring, are
// those of the XR's kind below apis.
func loadCase(root, name string) (renderCase, error) {
	dir := filepath.Join(root, casesDir, name)

	c := renderCase{
		name:     name,
		xr:       filepath.Join(dir, "xr.yaml"),
		required: existing(filepath.Join(dir, "required.yaml")),
		observed: existing(filepath.Join(dir, "observed.yaml")),
	}

	text, err := os.ReadFile(c.xr)
	if errors.Is(err, os.ErrNotExist) {
		return c, unknownCase(root, name)
	}

	if err != nil {
		return c, err
	}

	first, _, _ := strings.Cut(string(text), "\n")
	if c.description = strings.TrimPrefix(first, "# "); c.description == first {
		return c, fmt.Errorf("the first line of %s must describe the case in a comment", c.xr)
	}

	xr, err := readObject(c.xr)
	if err != nil {
		return c, err
	}

	isXRD := func(o *unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")

		return group == xr.GroupVersionKind().Group && kind == xr.GetKind()
	}
	if c.xrd, err = findAPI(root, "definition.yaml", isXRD); err != nil {
		return c, fmt.Errorf("cannot find the XRD of %s (of a claim, render its composite resource): %w", xr.GetKind(), err)
	}

	if c.composition = existing(filepath.Join(dir, "composition.yaml")); c.composition == "" {
		isComposition := func(o *unstructured.Unstructured) bool {
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "compositeTypeRef", "kind")
			return kind == xr.GetKind()
		}
		if c.composition, err = findAPI(root, "composition.yaml", isComposition); err != nil {
			return c, fmt.Errorf("cannot find a Composition of %s: %w", xr.GetKind(), err)
		}
	}

	c.function, err = functionName(c.composition)

	return c, err
}

// loadCases loads every case, sorted by name.
func loadCases(root string) ([]renderCase, error) {
	paths, err := filepath.Glob(filepath.Join(root, casesDir, "*", "xr.yaml"))
	if err != nil {
		return nil, err
	}

	cases := make([]renderCase, 0, len(paths))

	for _, path := range paths {
		c, err := loadCase(root, filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}

		cases = append(cases, c)
	}

	return cases, nil
}

func unknownCase(root, name string) error {
	cases, err := loadCases(root)
	if err != nil {
		return err
	}

	list := &strings.Builder{}
	for _, c := range cases {
		fmt.Fprintf(list, "\n  %-20s %s", c.name, c.description)
	}

	return fmt.Errorf("no case %q in %s; there are:%s", name, casesDir, list)
}

// findAPI returns the path of the file that matches, of all with that name below
// apis.
func findAPI(root, file string, matches func(*unstructured.Unstructured) bool) (string, error) {
	pattern := filepath.Join(root, "apis", "*", file)

	paths, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}

	for _, path := range paths {
		o, err := readObject(path)
		if err != nil {
			return "", err
		}

		if matches(o) {
			return path, nil
		}
	}

	return "", fmt.Errorf("none of %s matches", pattern)
}

// functionName returns the name of the one function that a Composition calls.
func functionName(composition string) (string, error) {
	o, err := readObject(composition)
	if err != nil {
		return "", err
	}

	steps, _, err := unstructured.NestedSlice(o.Object, "spec", "pipeline")
	if err != nil {
		return "", fmt.Errorf("%s: %w", composition, err)
	}

	names := []string{}

	for _, step := range steps {
		step, _ := step.(map[string]any)
		name, _, _ := unstructured.NestedString(step, "functionRef", "name")
		names = append(names, name)
	}

	if names = slices.Compact(names); len(names) != 1 {
		return "", fmt.Errorf("%s calls the functions %q, and only ours can be rendered", composition, names)
	}

	return names[0], nil
}

func existing(path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}

	return path
}
