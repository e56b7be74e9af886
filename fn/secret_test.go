package main

import (
	"encoding/base64"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// canary stands for every secret that a run can see.
const canary = "canary-7f3c9a"

// poison puts the canary wherever a provider shows secret material: connection details, a Secret's data inside an
// Object's status, and the parts of a Release's status that are not meant for people.
func poison(t testing.TB, req *fnv1.RunFunctionRequest) {
	t.Helper()
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	for name, r := range req.GetObserved().GetResources() {
		r.ConnectionDetails = map[string][]byte{"token": []byte(canary), "ca.crt": []byte(canary), "password": []byte(encoded)}
		if name == composedBarrier {
			r.ConnectionDetails["kubeconfig"] = []byte("kubeconfig with " + canary)
		}
		fields := r.GetResource().GetFields()["status"].GetStructValue().GetFields()["atProvider"].GetStructValue().GetFields()
		if fields == nil {
			continue
		}
		fields["values"] = structpb.NewStringValue(canary)
		manifest := fields["manifest"].GetStructValue().GetFields()
		if manifest == nil {
			continue
		}
		manifest["data"] = structpb.NewStructValue(structOfObject(t, object{"token": encoded, "ca.crt": canary}))
		manifest["stringData"] = structpb.NewStructValue(structOfObject(t, object{"token": canary}))
	}
}

func TestNoSecretLeaves(t *testing.T) {
	for _, k := range []id{xr("aa"), prod} {
		t.Run(k.kind, func(t *testing.T) {
			w := stages()["Running"](t)
			req, _ := w.call(k)
			req.Desired = nil
			poison(t, req)
			rsp := runFunction(t, w.fn, req)
			if failure := fatalOf(rsp); failure != "" {
				t.Fatal(failure)
			}
			composite := rsp.GetDesired().GetComposite()
			if got := string(composite.GetConnectionDetails()["kubeconfig"]); k.kind == v1alpha1.KindXClusterBlueprint && !strings.Contains(got, canary) {
				t.Errorf("the kubeconfig is not handed on: %q", got)
			}
			delete(composite.GetConnectionDetails(), "kubeconfig")
			raw, err := protojson.Marshal(rsp)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
				if i := strings.Index(string(raw), secret); i >= 0 {
					t.Errorf("a secret is in the response: …%s…", raw[max(0, i-200):min(len(raw), i+50)])
				}
			}
		})
	}
}

// What a strategy refuses of cloud-init is not quoted, since it may hold passwords.
func TestNoCloudInitInMessages(t *testing.T) {
	for name, cloudInit := range map[string]string{
		"Syntax": "chpasswd: {list: [" + canary, "Header": "#!/bin/sh " + canary, "Type": "- " + canary, "Twice": "password: " + canary + "\npassword: " + canary,
	} {
		t.Run(name, func(t *testing.T) {
			blueprint := put(harvesterBlueprint(t), cloudInit, "spec", "cloudInit")
			w := newWorld(t, infraBlueprint(t, 64), blueprint, clusterBlueprint("aa", "team", "aa", pools(1)))
			for _, k := range w.composites() {
				_, out := w.call(k)
				for conditionType, message := range conditionsOf(out.rsp) {
					if strings.Contains(message, canary) {
						t.Errorf("%v: condition %s quotes cloud-init: %s", k, conditionType, message)
					}
				}
			}
		})
	}
}
