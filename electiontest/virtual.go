package electiontest

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/go-election/go-election/election"
)

// Test runs f in the virtual time of testing/synctest, with a new group whose processes get these options. It
// is synctest.Test, except for how it ends: f may return while goroutines of the program still wait for
// something. That fails the test, but the test binary goes on, and what the test has reported is the last
// that one reads.
func Test(t *testing.T, options election.Options, f func(t *testing.T, g *Group)) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil && !t.Failed() {
			const text = "electiontest: goroutines did not end with the test, or all of them wait: %v"
			t.Errorf(text+"; synctest.Test shows their stacks", r)
		}
	}()
	synctest.Test(t, func(t *testing.T) { f(t, New(t, options)) })
}

// exit ends the test binary after the stacks of all goroutines, with what is wrong as the last line.
func exit(format string, args ...any) {
	stacks := make([]byte, 1<<20)
	os.Stderr.Write(stacks[:runtime.Stack(stacks, true)])
	fmt.Fprintf(os.Stderr, "\n"+format+"\n", args...)
	os.Exit(2)
}
