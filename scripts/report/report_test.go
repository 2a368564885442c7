package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// report feeds events to a run, and returns the run and its output.
func report(t *testing.T, events ...event) (*run, string) {
	t.Helper()
	var out strings.Builder
	r := newRun(&out)
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		r.handle(append(line, '\n'))
	}
	r.end()
	return r, out.String()
}

const here = "github.com/go-election/go-election/backend/etcd"

func of(action, test string) event { return event{Action: action, Package: here, Test: test} }

func said(test, text string) event {
	return event{Action: "output", Package: here, Test: test, Output: text}
}

func TestPassedTestsAreCountedAndSilent(t *testing.T) {
	r, out := report(t, of("start", ""), of("run", "TestA"), said("TestA", "=== RUN\n"), said("TestA", "chatter\n"),
		event{Action: "attr", Package: here, Test: "TestA", Key: "server", Value: "etcd 3.7"}, of("pass", "TestA"), of("pass", ""))
	if !r.ok() || strings.Contains(out, "chatter") {
		t.Errorf("ok=%v:\n%s", r.ok(), out)
	}
	if !strings.Contains(out, "backend/etcd") || !strings.Contains(out, "etcd 3.7") || !strings.HasSuffix(out, "\n1 passed, 0 failed, 0 skipped\n") {
		t.Errorf("the table lacks something:\n%s", out)
	}
}

func TestFailuresAreShown(t *testing.T) {
	for _, test := range []struct {
		name   string
		events []event
		want   []string
	}{
		{"a subtest", []event{said("TestA", "of TestA\n"), said("TestA/b", "why\n"), of("fail", "TestA/b"), of("fail", "TestA"), of("fail", "")},
			[]string{"backend/etcd TestA/b\nwhy\n", "of TestA\n", "FAILED: backend/etcd TestA/b\nwhy\n\nFAILED: backend/etcd TestA\nof TestA\n\n0 passed, 1 failed"}},
		{"a panic", []event{said("TestA", "panic: oh\n"), said("", "exit status 2\n"), of("fail", "")},
			[]string{"TestA has not ended\npanic: oh\n", "exit status 2", "FAILED AS A WHOLE"}},
		{"a package that does not compile", []event{{Action: "build-output", Output: "x.go:1: undefined\n"}, {Action: "build-fail"}, of("fail", "")},
			[]string{"x.go:1: undefined", "FAILED AS A WHOLE"}},
		{"an interrupted run", []event{of("run", "TestA")}, []string{"FAILED AS A WHOLE"}},
		{"no test at all", nil, []string{"0 passed"}},
	} {
		r, out := report(t, test.events...)
		if r.ok() {
			t.Errorf("%s: the run is reported as ok:\n%s", test.name, out)
		}
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is not in\n%s", test.name, want, out)
			}
		}
	}
}

func TestSkippedTestsAreCounted(t *testing.T) {
	_, out := report(t,
		said("TestA", "    tier.go:1: "+forVerify+"starts a cluster\n"), of("skip", "TestA"),
		of("run", "TestB"), said("TestB/x", "    tier.go:1: "+forVerify+"needs a server\n"), of("skip", "TestB/x"), of("pass", "TestB"), // it counts itself, not its subtests
		said("TestC", "    c.go:1: no such thing here\n"), of("skip", "TestC"),
		event{Action: "attr", Package: here, Test: "TestD", Key: "missing", Value: "Consul"}, of("pass", "TestD"), of("pass", ""))
	for _, want := range []string{"skipped: backend/etcd TestC: c.go:1: no such thing here", "MISSING for backend/etcd: Consul", "\n2 passed, 0 failed, 2 skipped\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestACaseThatWasRepeatedIsShownThoughItPassedThen(t *testing.T) {
	r, out := report(t, said("TestA/x", "    run.go:1: "+repeatedTrial+"trial 1 of 3 failed and does not count: late\n"), of("pass", "TestA/x"), of("pass", "TestA"), of("pass", ""))
	if want := "REPEATED: backend/etcd TestA/x: trial 1 of 3 failed and does not count: late\n"; !r.ok() || !strings.Contains(out, want) {
		t.Errorf("ok=%v, %q is not in\n%s", r.ok(), want, out)
	}
}

func TestLinesOutsideOfTestsArePrinted(t *testing.T) {
	var out strings.Builder
	newRun(&out).handle([]byte("deps: installing etcd-server"))
	if !strings.HasSuffix(out.String(), "\ndeps: installing etcd-server\n") {
		t.Errorf("got %q", out.String())
	}
}
