package testbed

import (
	"os"
	"strings"
	"testing"

	"github.com/go-election/go-election/conformance"
)

// ForVerify begins the reason why the fast tier skips a test. scripts/report counts such tests apart.
const ForVerify = "left to make verify: "

// Full leaves a test to "make verify": "go test -short", which "make test" runs, skips it.
// The reason says what takes long, or what a busy machine would disturb.
func Full(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip(ForVerify + reason)
	}
}

// contract lets only TestConformance, which runs the contract, use a shared server in the
// fast tier. Other tests are left to "make verify".
func contract(t testing.TB) {
	t.Helper()
	if name, _, _ := strings.Cut(t.Name(), "/"); name != "TestConformance" {
		Full(t, "needs a server")
	}
}

// oldest reports whether the tests run on the oldest etcd and Consul that this module claims to support.
func oldest() bool { return os.Getenv("ELECTION_TEST_OLDEST") != "" }

// InTier restricts the fast tier to the contract. Cases in which managers act in real time,
// which a busy machine delays, are left to "make verify".
func InTier(h conformance.Harness) conformance.Harness {
	if testing.Short() {
		h.Only = conformance.Case.Contract
	}
	return h
}
