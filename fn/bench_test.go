package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
)

const (
	// maxResponse is what Crossplane's client takes, in bytes.
	maxResponse = 4 << 20
	// maxLedger is our own limit for a thousand clusters, in bytes.
	maxLedger = 300 << 10
)

// crowd is the request of an InfraBlueprint with n clusters, of which those from granted on wait for their first offer.
func crowd(t testing.TB, n, granted, cpus int) *fnv1.RunFunctionRequest {
	t.Helper()
	// Amounts as the strategies make them: odd, since memory carries the overhead.
	takes := ledger.Resources{ledger.CPU: 48000, ledger.Memory: 104021 << 20, ledger.Disk: 1480 << 30, ledger.Nodes: 12, ledger.Clusters: 1}
	l := ledger.Ledger{Revision: int64(1000 + granted)}
	requests := &fnv1.Resources{}
	for i := range n {
		// Names as Crossplane makes them of a claim with a long name.
		name := fmt.Sprintf("payments-production-europe-west-%04d-x7k2p", i)
		r := ledger.Request{
			Cluster: name, Claim: fmt.Sprintf("team-payments-%03d/payments-production-europe-west-%04d", i, i),
			Created: testTime().Add(time.Duration(i) * time.Second), Need: takes,
		}
		if i < granted {
			r.Keeps, r.Fence, r.Provisioned = takes, int64(1000+i), true
			l.Grants = append(l.Grants, ledger.Grant{Cluster: r.Cluster, Claim: r.Claim, Amount: takes, Revision: r.Fence, Provisioned: true})
		}
		requests.Items = append(requests.Items, &fnv1.Resource{Resource: structOfObject(t, plain(t, requestMailbox("prod", r)))})
	}
	infra := infraBlueprint(t, cpus)
	infra = put(infra, "4Pi", "spec", "quota", "memory")
	infra = put(infra, "64Pi", "spec", "quota", "disk")
	infra = put(infra, plain(t, l.API()), "status", "ledger")
	return &fnv1.RunFunctionRequest{
		Meta:     &fnv1.RequestMeta{Capabilities: []fnv1.Capability{fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES}},
		Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: structOfObject(t, infra)}},
		RequiredResources: map[string]*fnv1.Resources{
			"requests": requests, "HarvesterBlueprint/fra1": {Items: []*fnv1.Resource{{Resource: structOfObject(t, harvesterBlueprint(t))}}},
		},
	}
}

// status of a response in bytes of JSON.
func ledgerSize(t testing.TB, rsp *fnv1.RunFunctionResponse) int {
	t.Helper()
	raw, err := json.Marshal(value(rsp.GetDesired().GetComposite().GetResource(), "status", "ledger").AsInterface())
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

// TestLimits of DESIGN §7: a thousand clusters.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and not concurrent")
	}
	cases := map[string]struct {
		reason        string
		granted, cpus int
	}{
		"Steady":  {reason: "All of them run.", granted: 1000, cpus: 50000},
		"Storm":   {reason: "All of them get their first offer at once.", granted: 0, cpus: 50000},
		"Waiting": {reason: "Half of them wait.", granted: 500, cpus: 24000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFunction(t, testTime)
			req := crowd(t, 1000, tc.granted, tc.cpus)
			rsp := runFunction(t, f, req)
			if failure := fatalOf(rsp); failure != "" {
				t.Fatal(failure)
			}
			if n := len(value(rsp.GetDesired().GetComposite().GetResource(), "status", "ledger", "grants").GetListValue().GetValues()); n != max(tc.granted, min(1000, tc.cpus/48)) {
				t.Errorf("%s: %d grants", tc.reason, n)
			}
			if size := ledgerSize(t, rsp); size > maxLedger {
				t.Errorf("%s: the ledger has %d bytes, more than %d", tc.reason, size, maxLedger)
			}
			if size := proto.Size(rsp); size > maxResponse {
				t.Errorf("%s: the response has %d bytes, more than %d", tc.reason, size, maxResponse)
			}
			t.Logf("request %d bytes, response %d bytes, ledger %d bytes", proto.Size(req), proto.Size(rsp), ledgerSize(t, rsp))

			// The next run publishes what this one committed.
			next := put(req.GetObserved().GetComposite().GetResource().AsMap(),
				value(rsp.GetDesired().GetComposite().GetResource(), "status").GetStructValue().AsMap(), "status")
			req.Desired, req.Observed.Composite.Resource = nil, structOfObject(t, next)
			rsp = runFunction(t, f, req)
			if size := proto.Size(rsp); size > maxResponse {
				t.Errorf("%s: the response with all offers has %d bytes, more than %d", tc.reason, size, maxResponse)
			}
			t.Logf("next: response %d bytes", proto.Size(rsp))
		})
	}
}

func BenchmarkInfraBlueprint(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := newFunction(b, testTime)
			req := crowd(b, n, n, 50*n)
			rsp := runFunction(b, f, req)
			b.ReportMetric(float64(proto.Size(rsp)), "response-B")
			b.ReportMetric(float64(ledgerSize(b, rsp)), "ledger-B")
			b.ReportAllocs()
			for b.Loop() {
				req.Desired = nil
				if rsp := runFunction(b, f, req); fatalOf(rsp) != "" {
					b.Fatal(fatalOf(rsp))
				}
			}
		})
	}
}

func BenchmarkCluster(b *testing.B) {
	w := stages()["Running"](b)
	req, _ := w.call(id{v1alpha1.KindXClusterBlueprint, "aa"})
	b.ReportAllocs()
	for b.Loop() {
		req.Desired = nil
		if rsp := runFunction(b, w.fn, req); fatalOf(rsp) != "" {
			b.Fatal(fatalOf(rsp))
		}
	}
}
