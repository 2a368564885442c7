package testbed

import (
	"strings"
	"testing"

	"github.com/go-election/go-election/conformance"
)

// ForVerify begins the reason with which a test leaves the fast tier. The table at the end
// of a run counts tests by it.
const ForVerify = "left to make verify: "

// Full leaves a test to "make verify". The reason says what takes long, or what a busy
// machine would disturb. "go test -short", which "make test" runs, skips the test.
func Full(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip(ForVerify + reason)
	}
}

// contract lets a test use a server that tests share, in the fast tier as well, if it is
// the one that runs the contract: TestConformance.
func contract(t testing.TB) {
	t.Helper()
	if name, _, _ := strings.Cut(t.Name(), "/"); name != "TestConformance" {
		Full(t, "needs a server")
	}
}

// InTier leaves to "make verify" what managers do among themselves in real time, which
// a busy machine delays. The fast tier runs the contract.
func InTier(h conformance.Harness) conformance.Harness {
	if testing.Short() {
		h.Only = conformance.Case.Contract
	}
	return h
}

// used notes the server of a test, for the table at the end of a run.
func used(t testing.TB, server string) {
	t.Helper()
	t.Attr("server", server)
}
