// Package testrules has what the tests of drivers, registers and locks share: rules that each of them must
// keep to, and a way to see that a rule finds what breaks it.
package testrules

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// A Rule is tested in a lab that was made for this test alone, such as a store with a first client.
type Rule[Lab any] struct {
	Name string
	Test func(Lab)
}

// T is the test of a rule.
type T struct{ testing.TB }

// Want fails the test unless ok.
func (t T) Want(ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// Must ends the test unless ok.
func (t T) Must(ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// Find fails t unless the rule of this name fails in a lab in which something is broken.
func Find[Lab any](t *testing.T, rules []Rule[Lab], name string, lab func(testing.TB) Lab) {
	t.Helper()
	i := slices.IndexFunc(rules, func(r Rule[Lab]) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no rule is called %q", name)
	}

	r := &recorder{TB: t}
	var test sync.WaitGroup
	test.Go(func() { rules[i].Test(lab(r)) })
	test.Wait()
	if r.first == "" {
		t.Errorf("it is not found by the rule: %s", name)
	}
	t.Log(r.first)
}

// A recorder is a test that may fail.
type recorder struct {
	testing.TB
	mu    sync.Mutex
	first string // failure; "": none
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == "" {
		r.first = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

// Failed implements [testing.TB].
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first != ""
}

var meeting = make(chan bool)

// Meet waits for a moment until another call is as far, so that what is broken has its misfortune.
func Meet() {
	select {
	case meeting <- true:
	case <-meeting:
	case <-time.After(2 * time.Millisecond):
	}
}
