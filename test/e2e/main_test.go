// Package e2e tests the product on a real control plane, through claims of app teams.
//
// The control plane is started once for all tests, beside one of make up. E2E_KEEP=1 leaves it running afterwards, with
// its kubeconfigs and logs in .cache/controlplane/e2e; .cache/bin/controlplane --name=e2e down ends it.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

// plane is the control plane of all tests. Nil with -short.
var plane *stack.Stack //nolint:gochecknoglobals // Tests have no other way to share what TestMain started.

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	// Machines come and go quickly; tests that need slow ones say so on their InfraBlueprint.
	plane, err = stack.Open(stack.Options{Name: "e2e", Packages: true, CreateDelay: time.Second, DeleteDelay: time.Second, Log: os.Stderr})
	if err != nil {
		return fail(err)
	}
	// A run that was killed leaves its control plane behind.
	if err := plane.Down(); err != nil {
		return fail(err)
	}
	err = plane.Up(context.Background())
	code := 1
	if err == nil {
		code = m.Run()
		if code == 0 {
			if err := withdraw(context.Background()); err != nil {
				code = fail(err)
			}
		}
	} else {
		fail(err)
	}
	if !keep() {
		if err := plane.Down(); err != nil {
			return fail(err)
		}
	}
	return code
}

// keep the control plane after the tests, and what failed tests have made.
func keep() bool { return os.Getenv("E2E_KEEP") != "" }

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
