package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// exampleObjects of ours, by file.
func exampleObjects(t *testing.T) map[string][]object {
	t.Helper()
	out := map[string][]object{}
	err := filepath.WalkDir("../examples", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			o := fromYAML(t, "%s", document)
			if version, _ := o["apiVersion"].(string); strings.HasPrefix(version, v1alpha1.GroupVersion.Group+"/") {
				file := strings.TrimPrefix(filepath.ToSlash(path), "../examples/")
				out[file] = append(out[file], o)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every claim in the examples is admitted by its InfraBlueprint and becomes a Release.
func TestExamplesRender(t *testing.T) {
	objects := exampleObjects(t)
	blueprints := map[id]object{}
	for _, list := range objects {
		for _, o := range list {
			blueprints[idOf(o)] = o
		}
	}
	composition, err := os.ReadFile("../apis/clusterblueprints/composition.yaml")
	if err != nil {
		t.Fatal(err)
	}
	input, _ := at(at(fromYAML(t, "%s", composition), "spec", "pipeline").([]any)[0], "input").(object)
	claims := 0
	for file, list := range objects {
		for _, claim := range list {
			if claim["kind"] != v1alpha1.KindClusterBlueprint {
				continue
			}
			claims++
			name, _ := at(claim, "metadata", "name").(string)
			t.Run(file+"/"+name, func(t *testing.T) {
				infra := blueprints[id{v1alpha1.KindInfraBlueprint, at(claim, "spec", "infraBlueprintRef", "name").(string)}]
				provider := blueprints[id{at(infra, "spec", "providerRef", "kind").(string), at(infra, "spec", "providerRef", "name").(string)}]
				composite := clusterBlueprint(name, at(claim, "metadata", "namespace").(string), name, nil)
				composite["spec"] = claim["spec"]
				w := newWorld(t, put(infra, "uid-infra", "metadata", "uid"), provider, composite)
				w.input = input
				w.rounds(6)
				w.expect(xr(name), typeAdmitted, "True Admitted")
				if got := w.condition(xr(name), typeProvisioned); strings.HasPrefix(got, "False "+reasonProvisioningFailed) {
					t.Errorf("it cannot be built: %s", w.message(xr(name), typeProvisioned))
				}
				if w.objects[release(name)] == nil {
					t.Error("there is no Release")
				}
			})
		}
	}
	if claims == 0 {
		t.Error("no example has a claim")
	}
}
