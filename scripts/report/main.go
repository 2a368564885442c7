// Report summarizes the output of one or several runs of "go test -json". It shows each failure at once and
// in full, and each package when it has ended: how many tests ran, on which servers, and how many are left to
// the full tier. At the end it names tests that were skipped, cases that were repeated, and servers that are
// missing, and tells each failure again: the last lines of a long run are read first.
//
//	go test -json -short ./... | go run ./scripts/report
//
// It exits with 1 if a test failed, or if none ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	r := newRun(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<30) // a line may be very long
	for in.Scan() {
		r.handle(in.Bytes())
	}
	r.end()
	if !r.ok() {
		os.Exit(1)
	}
}

// An event is a line of "go test -json": see "go doc test2json".
type event struct {
	Action, Package, Test string
	Output                string
	Key, Value            string // of testing.TB.Attr
	Elapsed               float64
}

// A run is the state of all packages so far.
type run struct {
	out     io.Writer
	running map[string]*pkg
	total   counts
	broken  bool     // a package failed
	notes   []string // for the end
	failed  []string // failures, with their first lines
}

// counts has numbers of tests by how they ended: pass, fail, skip, or left to the full tier.
type counts map[string]int

const (
	mostListed = 20   // failures
	mostSaid   = 1500 // bytes of a failure
)

// A pkg is one package's tests.
type pkg struct {
	path    string
	output  map[string][]string // of tests that run; "": outside of tests
	count   counts              // of tests without their subtests
	servers map[string]bool
	missing map[string]bool // servers and programs that are not installed
}

// forVerify begins the reason why the fast tier skips a test (see testbed.ForVerify).
const forVerify = "left to make verify: "

// repeatedTrial begins the line with which the conformance suite repeats a case that failed.
const repeatedTrial = "REPEATED: "

func newRun(out io.Writer) *run {
	r := &run{out: out, running: map[string]*pkg{}, total: counts{}}
	fmt.Fprintf(out, "%-24s %6s %6s %6s %7s  %s\n", "package", "passed", "failed", "left", "seconds", "on")
	return r
}

// handle handles a line of input.
func (r *run) handle(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		fmt.Fprintf(r.out, "%s\n", line) // not the output of a test
		return
	}
	if e.Package == "" { // of the compiler
		fmt.Fprint(r.out, e.Output)
		return
	}

	path := strings.TrimPrefix(e.Package, "github.com/go-election/go-election/")
	p := r.running[path]
	if p == nil {
		p = &pkg{path, map[string][]string{}, counts{}, map[string]bool{}, map[string]bool{}}
		r.running[path] = p
	}
	switch {
	case e.Action == "output":
		r.said(p, e)
	case e.Action == "attr" && e.Key == "server":
		p.servers[e.Value] = true
	case e.Action == "attr" && e.Key == "missing":
		p.missing[e.Value] = true
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
	case e.Test != "":
		r.testEnded(p, e)
	default:
		r.packageEnded(p, e)
	}
}

// said keeps a line of output. A test that has begun has some: "=== RUN".
func (r *run) said(p *pkg, e event) {
	p.output[e.Test] = append(p.output[e.Test], e.Output)
	// The suite's own tests let trials fail.
	if _, why, found := strings.Cut(e.Output, repeatedTrial); found && p.path != "conformance" {
		r.note("%s%s %s: %s", repeatedTrial, p.path, e.Test, strings.TrimSpace(why))
	}
}

// testEnded counts a test, and shows one that failed.
func (r *run) testEnded(p *pkg, e event) {
	output := written(p.output[e.Test])
	delete(p.output, e.Test)
	ended := e.Action
	switch {
	case ended == "fail":
		r.fails("%s %s\n%s", p.path, e.Test, output)
	case ended == "skip" && strings.Contains(output, forVerify):
		ended = "left"
	case ended == "skip":
		r.note("skipped: %s %s: %s", p.path, e.Test, strings.TrimSpace(output))
	}
	if !strings.Contains(e.Test, "/") {
		p.count[ended]++
	}
}

// written returns what a test has written, without the lines of go test itself.
func written(output []string) string {
	return strings.Join(slices.DeleteFunc(output, func(line string) bool {
		line = strings.TrimSpace(line)
		return strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ")
	}), "")
}

// packageEnded prints the row of a package. If it failed outside of a test's result, as by a panic, the
// output that was not printed yet comes first.
func (r *run) packageEnded(p *pkg, e event) {
	delete(r.running, p.path)
	note := strings.Join(slices.Sorted(maps.Keys(p.servers)), "; ")
	outside := written(p.output[""])
	delete(p.output, "")
	if e.Action == "fail" {
		r.broken = true
		if p.count["fail"] == 0 || len(p.output) > 0 {
			note = "FAILED AS A WHOLE"
			for _, test := range slices.Sorted(maps.Keys(p.output)) {
				r.fails("%s %s has not ended\n%s", p.path, test, written(p.output[test]))
			}
			r.fails("%s\n%s", p.path, outside)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(p.missing)) {
		r.note("MISSING for %s: %s", p.path, m)
	}
	for ended, n := range p.count {
		r.total[ended] += n
	}
	if len(p.count) > 0 || e.Action == "fail" {
		fmt.Fprintf(r.out, "%-24s %6d %6d %6d %7.1f  %s\n",
			p.path, p.count["pass"], p.count["fail"], p.count["left"], e.Elapsed, note)
	}
}

func (r *run) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// fails shows a failure, and keeps it for the end.
func (r *run) fails(format string, args ...any) {
	failure := fmt.Sprintf(format, args...)
	fmt.Fprintf(r.out, "\n%s", failure)
	r.failed = append(r.failed, strings.TrimSpace(failure[:min(len(failure), mostSaid)]))
}

// ok reports whether tests ran and none failed.
func (r *run) ok() bool { return !r.broken && len(r.running) == 0 && r.total["pass"] > 0 }

// end prints what the run has noted, and the sum of all tests.
func (r *run) end() {
	for path := range r.running {
		r.note("FAILED AS A WHOLE: %s", path)
	}
	slices.Sort(r.notes)
	slices.Reverse(r.notes) // what is missing comes last, where it is not overlooked
	fmt.Fprintf(r.out, "\n%s\n", strings.Join(r.notes, "\n"))
	for _, failure := range r.failed[:min(len(r.failed), mostListed)] {
		fmt.Fprintf(r.out, "\nFAILED: %s\n", failure)
	}
	n := r.total
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", n["pass"], n["fail"], n["left"]+n["skip"])
}
