package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// A run is the state of all packages so far.
type run struct {
	out      io.Writer
	packages []*pkg // in the order in which they began
	build    []string
	slowest  []slow // tests without their subtests, the slowest first
}

// A slow is how long a test took.
type slow struct {
	test    string
	seconds float64
}

// mostSlow is how many of the slowest tests the table has.
const mostSlow = 20

// A pkg is one package's tests.
type pkg struct {
	run     *run
	path    string
	ended   bool
	failed  bool // as a whole
	elapsed time.Duration
	output  []string // outside of tests
	running map[string]*test
	count   map[outcome]int // tests without their subtests
	servers map[string]bool
	missing map[string]bool // servers and programs that are not installed
	reasons map[string]int  // why tests are left to the full tier
	skipped []string        // tests that were skipped for another reason

	// Cases of the conformance suite that failed and were repeated, with the error.
	repeated []string
}

// A test is a running test.
type test struct {
	output []string
	subs   map[outcome]int
}

type outcome string

const (
	passed  outcome = "passed"
	failed  outcome = "failed"
	left    outcome = "left"    // to the full tier
	skipped outcome = "skipped" // for another reason
)

// forVerify begins the reason why the fast tier skips a test (see testbed.ForVerify).
const forVerify = "left to make verify: "

// repeatedTrial begins the line with which the conformance suite repeats a case that failed.
const repeatedTrial = "REPEATED: "

func newRun(out io.Writer) *run { return &run{out: out} }

// pkg returns the running package of this path, and adds it at its first event.
func (r *run) pkg(path string) *pkg {
	path = strings.TrimPrefix(path, "github.com/go-election/go-election/")
	if i := slices.IndexFunc(r.packages, func(p *pkg) bool { return p.path == path && !p.ended }); i >= 0 {
		return r.packages[i]
	}
	p := &pkg{run: r, path: path, running: make(map[string]*test), count: make(map[outcome]int),
		servers: make(map[string]bool), missing: make(map[string]bool), reasons: make(map[string]int)}
	r.packages = append(r.packages, p)
	return p
}

// test handles an event of a test.
func (p *pkg) test(e event) {
	t := p.running[e.Test]
	if t == nil {
		t = &test{subs: make(map[outcome]int)}
		p.running[e.Test] = t
	}
	switch e.Action {
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			t.output = append(t.output, e.Output)
		}
		// The suite's own tests let trials fail.
		if _, why, found := strings.Cut(e.Output, repeatedTrial); found && p.path != "conformance" {
			p.repeated = append(p.repeated, e.Test+": "+strings.TrimSpace(why))
		}
	case "attr":
		switch e.Key {
		case "server":
			p.servers[e.Value] = true
		case "missing":
			p.missing[e.Value] = true
		}
	case "pass", "fail", "skip":
		delete(p.running, e.Test)
		p.testEnded(e, t)
	}
}

// testEnded counts a test, and shows one that failed.
func (p *pkg) testEnded(e event, t *test) {
	is := passed
	switch e.Action {
	case "fail":
		is = failed
		p.run.show(append([]string{fmt.Sprintf("\n%s %s\n", p.path, e.Test)}, t.output...))
	case "skip":
		is = skipped
		if _, why, found := strings.Cut(strings.Join(t.output, ""), forVerify); found {
			is = left
			why, _, _ = strings.Cut(why, "\n")
			p.reasons[why]++
		} else {
			p.skipped = append(p.skipped, e.Test+": "+reason(t.output))
		}
	case "pass": // if all its subtests are left to the full tier, so is the test
		if t.subs[left] > 0 && t.subs[passed]+t.subs[skipped] == 0 {
			is = left
		}
	}
	parent := e.Test
	if i := strings.LastIndexByte(parent, '/'); i >= 0 {
		if above := p.running[parent[:i]]; above != nil {
			above.subs[is]++
		}
		return
	}
	p.count[is]++
	p.run.took(slow{p.path + " " + e.Test, e.Elapsed})
}

// took keeps a test if it is one of the slowest.
func (r *run) took(s slow) {
	r.slowest = append(r.slowest, s)
	slices.SortStableFunc(r.slowest, func(a, b slow) int { return cmp.Compare(b.seconds, a.seconds) })
	r.slowest = r.slowest[:min(len(r.slowest), mostSlow)]
}

// reason returns the last line that a skipped test printed.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--- ") {
			return line
		}
	}
	return "no reason given"
}

// end ends a package. If it failed outside of a test's result, as by a panic, end prints the
// output that was not printed yet.
func (p *pkg) end(e event) {
	p.ended, p.elapsed = true, time.Duration(e.Elapsed*float64(time.Second))
	p.failed = e.Action == "fail"
	if p.failed && (p.count[failed] == 0 || len(p.running) > 0) {
		for _, name := range slices.Sorted(maps.Keys(p.running)) {
			p.run.show(append([]string{fmt.Sprintf("\n%s %s has not ended\n", p.path, name)}, p.running[name].output...))
		}
		p.run.show(p.output)
	}
	p.output, p.running = nil, make(map[string]*test)
}

func (r *run) show(output []string) { fmt.Fprint(r.out, strings.Join(output, "")) }

// progress prints how many tests have ended, and which packages run.
func (r *run) progress(since time.Duration) {
	var running []string
	tests, done := 0, 0
	for _, p := range r.packages {
		tests += p.count[passed] + p.count[failed]
		if p.ended {
			done++
		} else {
			running = append(running, p.path)
		}
	}
	now := "compiling"
	if len(running) > 0 {
		now = strings.Join(running, ", ")
	}
	fmt.Fprintf(r.out, "%6v  %d tests of %d packages have ended; now: %s\n", since.Round(time.Second), tests, done, now)
}

// ok reports whether tests ran and none failed.
func (r *run) ok() bool {
	ran := false
	for _, p := range r.packages {
		if p.failed || !p.ended {
			return false
		}
		ran = ran || p.count[passed] > 0
	}
	return ran
}

// table prints how many tests ran, on which servers, and which were skipped.
func (r *run) table() {
	slices.SortStableFunc(r.packages, func(a, b *pkg) int { return cmp.Compare(a.path, b.path) })
	total, why := make(map[outcome]int), make(map[string]int)
	fmt.Fprintf(r.out, "\n%-24s %6s %6s %6s %7s  %s\n", "package", "passed", "failed", "left", "seconds", "on")
	for _, p := range r.packages {
		for is, n := range p.count {
			total[is] += n
		}
		for reason, n := range p.reasons {
			why[reason] += n
		}
		if len(p.count) == 0 && p.ended && !p.failed {
			continue // no tests
		}
		note := strings.Join(slices.Sorted(maps.Keys(p.servers)), "; ")
		if p.failed && p.count[failed] == 0 || !p.ended {
			note = "FAILED AS A WHOLE"
		}
		fmt.Fprintf(r.out, "%-24s %6d %6d %6d %7.1f  %s\n", p.path, p.count[passed], p.count[failed], p.count[left], p.elapsed.Seconds(), note)
	}
	fmt.Fprintf(r.out, "\nThe slowest tests, in seconds:\n")
	for _, s := range r.slowest {
		fmt.Fprintf(r.out, "%7.1f %s\n", s.seconds, s.test)
	}
	if total[left] > 0 {
		fmt.Fprintf(r.out, "\nLeft to the full tier, \"make verify\":\n")
		for _, reason := range slices.SortedFunc(maps.Keys(why), func(a, b string) int { return cmp.Or(why[b]-why[a], strings.Compare(a, b)) }) {
			fmt.Fprintf(r.out, "  %4d: %s\n", why[reason], reason)
		}
	}
	for _, p := range r.packages {
		for _, s := range p.skipped {
			fmt.Fprintf(r.out, "skipped: %s %s\n", p.path, s)
		}
	}
	for _, p := range r.packages { // last, where it is not overlooked
		for _, s := range p.repeated {
			fmt.Fprintf(r.out, "%s%s %s\n", repeatedTrial, p.path, s)
		}
		for _, m := range slices.Sorted(maps.Keys(p.missing)) {
			fmt.Fprintf(r.out, "MISSING for %s: %s\n", p.path, m)
		}
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", total[passed], total[failed], total[left]+total[skipped])
}
