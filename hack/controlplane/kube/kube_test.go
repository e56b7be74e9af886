package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestParse(t *testing.T) {
	type want struct {
		objects []*unstructured.Unstructured
		failed  bool
	}
	object := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "A", "metadata": map[string]any{"name": name}, "count": int64(1)}}
	}
	cases := map[string]struct {
		reason    string
		documents string
		want      want
	}{
		"Several": {
			reason:    "Documents keep their order; empty ones and comments are no objects; whole numbers stay whole.",
			documents: "# first\n---\nkind: A\nmetadata: {name: a}\ncount: 1\n---\n---\n# only a comment\n---\nkind: A\nmetadata: {name: b}\ncount: 1\n",
			want:      want{objects: []*unstructured.Unstructured{object("a"), object("b")}},
		},
		"Nothing": {
			reason: "Nothing is no error.",
		},
		"Broken": {
			reason:    "What is no YAML is an error.",
			documents: "kind: [",
			want:      want{failed: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(tc.documents))
			if diff := cmp.Diff(tc.want, want{got, err != nil}, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%s\nParse(...): -want, +got (%v):\n%s", tc.reason, err, diff)
			}
		})
	}
}

func TestConditionOf(t *testing.T) {
	objects, err := Parse([]byte(`{status: {conditions: [{type: Synced, status: "True"}, {type: Ready, status: "False", reason: Creating, message: wait}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Condition{"False", "Creating", "wait"}, ConditionOf(objects[0], "Ready")); diff != "" {
		t.Errorf("ConditionOf(...): -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(Condition{}, ConditionOf(objects[0], "Admitted")); diff != "" {
		t.Errorf("a condition that is missing must be empty: -want, +got:\n%s", diff)
	}
}

func TestWait(t *testing.T) {
	tries := 0
	err := Wait(t.Context(), time.Minute, func(context.Context) error {
		tries++
		if tries < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("Wait(...) must try until it works: %d tries, %v", tries, err)
	}
	err = Wait(t.Context(), time.Millisecond, func(context.Context) error { return errors.New("still pending") })
	if err == nil || !strings.Contains(err.Error(), "still pending") {
		t.Errorf("Wait(...) must say what was last seen, not %v", err)
	}
}
