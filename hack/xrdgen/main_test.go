package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/crossplane/crossplane-runtime/v2/pkg/xcrd"
	xpv1 "github.com/crossplane/crossplane/apis/v2/apiextensions/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"
)

func TestRun(t *testing.T) {
	cases := map[string]struct {
		reason string
		crds   string
		want   map[string]string
		err    string
	}{
		"Composite": {
			reason: "A kind without annotations is a composite resource that cannot be claimed, with its own names.",
			crds: `
metadata:
  name: blueprints.example.org
  annotations:
    controller-gen.kubebuilder.io/version: v1.0.0
spec:
  group: example.org
  names:
    kind: Blueprint
    listKind: BlueprintList
    plural: blueprints
    singular: blueprint
    shortNames: [bp]
    categories: [rig]
  scope: Cluster
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: CPU, type: string, jsonPath: .spec.cpu}
    schema:
      openAPIV3Schema:
        description: Blueprint of something.
        type: object
        required: [spec]
        x-kubernetes-validations:
        - {rule: has(self.spec), message: needs a spec}
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            properties:
              cpu: {type: string, pattern: "^[0-9]+$", x-kubernetes-int-or-string: true}
              pools:
                type: array
                items:
                  type: object
                  properties:
                    memory: {type: string, x-kubernetes-int-or-string: true}
                    name: {type: string, maxLength: 30}
          status:
            type: object
            properties:
              conditions: {type: array, items: {type: object}}
              provider: {type: string}
`,
			want: map[string]string{"blueprints/definition.yaml": header + `apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata:
  name: blueprints.example.org
spec:
  enforcedCompositionRef:
    name: blueprints.example.org
  group: example.org
  names:
    categories:
    - rig
    kind: Blueprint
    listKind: BlueprintList
    plural: blueprints
    shortNames:
    - bp
    singular: blueprint
  versions:
  - additionalPrinterColumns:
    - jsonPath: .spec.cpu
      name: CPU
      type: string
    name: v1alpha1
    referenceable: true
    schema:
      openAPIV3Schema:
        description: Blueprint of something.
        properties:
          spec:
            properties:
              cpu:
                anyOf:
                - type: integer
                - type: string
                pattern: ^[0-9]+$
                x-kubernetes-int-or-string: true
              pools:
                items:
                  properties:
                    memory:
                      anyOf:
                      - type: integer
                      - type: string
                      x-kubernetes-int-or-string: true
                    name:
                      maxLength: 30
                      type: string
                  type: object
                type: array
            type: object
          status:
            properties:
              provider:
                type: string
            type: object
        required:
        - spec
        type: object
        x-kubernetes-validations:
        - message: needs a spec
          rule: has(self.spec)
    served: true
`},
		},
		"Claim": {
			reason: "A claim keeps the names of its kind, and its composite resource has an X in front of each.",
			crds: `
metadata:
  name: claims.example.org
  annotations:
    xrd.rig-gateway.io/claim: "true"
    xrd.rig-gateway.io/composite-delete-policy: Foreground
    xrd.rig-gateway.io/connection-secret-keys: kubeconfig,token
spec:
  group: example.org
  names: {kind: Claim, listKind: ClaimList, plural: claims, singular: claim, shortNames: [cl], categories: [rig]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
---
metadata:
  name: others.example.org
spec:
  group: example.org
  names: {kind: Other, plural: others}
  versions:
  - name: v1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object}}
`,
			want: map[string]string{
				"claims/definition.yaml": header + `apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata:
  name: xclaims.example.org
spec:
  claimNames:
    categories:
    - rig
    kind: Claim
    listKind: ClaimList
    plural: claims
    shortNames:
    - cl
    singular: claim
  connectionSecretKeys:
  - kubeconfig
  - token
  defaultCompositeDeletePolicy: Foreground
  enforcedCompositionRef:
    name: xclaims.example.org
  group: example.org
  names:
    categories:
    - rig
    kind: XClaim
    listKind: XClaimList
    plural: xclaims
    shortNames:
    - xcl
    singular: xclaim
  versions:
  - name: v1
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
    served: true
`,
				"others/definition.yaml": header + `apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata:
  name: others.example.org
spec:
  enforcedCompositionRef:
    name: others.example.org
  group: example.org
  names:
    kind: Other
    plural: others
  versions:
  - name: v1
    referenceable: false
    schema:
      openAPIV3Schema:
        type: object
    served: true
`,
			},
		},
		"UnknownAnnotation": {
			reason: "A misspelt annotation must not silently change the API.",
			crds: `
metadata:
  name: claims.example.org
  annotations: {xrd.rig-gateway.io/claims: "true"}
spec:
  names: {kind: Claim}
`,
			want: map[string]string{},
			err:  `cannot convert CRD "claims.example.org": unknown annotation "xrd.rig-gateway.io/claims"`,
		},
		"NotYAML": {
			reason: "What is no CRD is refused.",
			crds:   "spec: []",
			want:   map[string]string{},
			err:    "cannot parse CRD: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field crd.spec of type struct { Group string \"json:\\\"group\\\"\"; Names main.names \"json:\\\"names\\\"\"; Versions []main.crdVersion \"json:\\\"versions\\\"\" }",
		},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()

			err := ""
			if e := run(strings.NewReader(tc.crds), dir); e != nil {
				err = e.Error()
			}

			if diff := cmp.Diff(tc.err, err); diff != "" {
				t.Errorf("%s: -want error, +got error:\n%s", tc.reason, diff)
			}

			got := map[string]string{}

			paths, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
			for _, path := range paths {
				rel, _ := filepath.Rel(dir, path)
				b, _ := os.ReadFile(path)
				got[rel] = string(b)
			}

			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDefinitions derives from each definition in the repository the CRDs that
// Crossplane makes of it, checks them as the API server does (structural schema,
// CEL rules and their cost), and that nothing of our schema is lost on the way:
// Crossplane drops some keys of spec and status, and fields with the names of
// its own.
func TestDefinitions(t *testing.T) {
	paths, err := filepath.Glob("../../apis/*/definition.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no definitions: %v", err)
	}

	for _, path := range paths {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			def := &xpv1.CompositeResourceDefinition{}
			readYAML(t, path, def)
			def.SetUID("owner")

			composite, err := xcrd.ForCompositeResource(def)
			if err != nil {
				t.Fatal(err)
			}

			derived := []*extv1.CustomResourceDefinition{composite}

			if def.Spec.ClaimNames != nil {
				claim, err := xcrd.ForCompositeResourceClaim(def)
				if err != nil {
					t.Fatal(err)
				}

				derived = append(derived, claim)
			}

			for _, crd := range derived {
				if err := validate(crd); err != nil {
					t.Errorf("%s: the API server would refuse the CRD: %v", crd.GetName(), err)
				}

				for i, v := range def.Spec.Versions {
					want := &extv1.JSONSchemaProps{}
					if err := yaml.Unmarshal(v.Schema.OpenAPIV3Schema.Raw, want); err != nil {
						t.Fatal(err)
					}

					got := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
					withoutAdded(got, want)

					if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("%s: Crossplane would change our schema: -ours, +derived:\n%s", crd.GetName(), diff)
					}
				}
			}
		})
	}
}

// TestCompositions checks that the Composition that a definition enforces lies
// beside it.
func TestCompositions(t *testing.T) {
	paths, err := filepath.Glob("../../apis/*/definition.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no definitions: %v", err)
	}

	type identity struct {
		Name string
		Type xpv1.TypeReference
	}

	for _, path := range paths {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			def := &xpv1.CompositeResourceDefinition{}
			readYAML(t, path, def)

			comp := &xpv1.Composition{}
			readYAML(t, filepath.Join(filepath.Dir(path), "composition.yaml"), comp)

			want := identity{
				Name: def.Spec.EnforcedCompositionRef.Name,
				Type: xpv1.TypeReferenceTo(def.GetCompositeGroupVersionKind()),
			}
			if diff := cmp.Diff(want, identity{Name: comp.GetName(), Type: comp.Spec.CompositeTypeRef}); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

// validate is what the API server does with a new CRD.
func validate(crd *extv1.CustomResourceDefinition) error {
	extv1.SetDefaults_CustomResourceDefinition(crd)
	extv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}

	internal := &apiextensions.CustomResourceDefinition{}
	if err := extv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
		return err
	}

	errs := []error{}
	for _, err := range validation.ValidateCustomResourceDefinition(context.Background(), internal) {
		errs = append(errs, err)
	}

	return errors.Join(errs...)
}

// withoutAdded removes from a derived schema the fields that Crossplane adds and
// ours does not name.
func withoutAdded(got, want *extv1.JSONSchemaProps) {
	keep := func(got, want map[string]extv1.JSONSchemaProps) {
		maps.DeleteFunc(got, func(name string, _ extv1.JSONSchemaProps) bool {
			_, ours := want[name]
			return !ours
		})
	}

	keep(got.Properties, want.Properties)

	for _, name := range slices.Collect(maps.Keys(want.Properties)) {
		keep(got.Properties[name].Properties, want.Properties[name].Properties)
	}
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()

	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if err := yaml.UnmarshalStrict(b, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
