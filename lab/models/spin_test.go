package models

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

var (
	full  = flag.Bool("full", false, "run all checks, not only the short ones, and print the table")
	trail = flag.String("trail", "", "print the counterexample of this check, given as MODEL or MODEL/CHECK")
)

// An expectation is the required result of a search.
type expectation string

const (
	holds    expectation = "holds"    // the search visited all states, and none breaks the rule
	violated expectation = "violated" // the search found a state that breaks the rule, so the rule that the twin lacks is needed
	reached  expectation = "reached"  // the search found a state that must be possible, or the model would prove nothing
)

// A check is one search of one model.
type check struct {
	name    string // of the twin, or of the rule that must hold
	defines string // for the preprocessor: FIRST SECOND=2
	want    expectation
	says    string // the claim, in words
	short   bool   // part of every full test run
}

// A search is the result of a search.
type search struct {
	result  string // holds, violated, or an error
	states  int
	depth   int
	seconds float64 // of one core, without compiling
	dir     string  // has the model and the trail
}

// memory is the limit for a search, in MB.
const memory = 6000

// TestModels searches every model for two leaders. It must find them in twins, which leave out a rule, and only there.
func TestModels(t *testing.T) {
	need(t)
	if *full {
		fmt.Printf("%-10s %-22s %-9s %-9s %10s %6s %7s  %s\n", "model", "check", "expected", "result", "states", "depth", "seconds", "says")
	}
	wrong := 0
	began := time.Now()
	ran := 0
	for _, m := range models {
		for _, c := range m.checks {
			if !*full && !c.short {
				continue
			}
			t.Run(m.name+"/"+c.name, func(t *testing.T) {
				ran++
				s := run(t, m.name, c)
				if *full {
					fmt.Printf("%-10s %-22s %-9s %-9s %10d %6d %7.1f  %s\n", m.name, c.name, c.want, s.result, s.states, s.depth, s.seconds, c.says)
				}
				if s.result != string(c.want) {
					wrong++
					t.Errorf("%s (%s): expected %q, the search ended with %q", c.says, c.defines, c.want, s.result)
					if s.result == string(violated) {
						t.Logf("%s", replay(t, s, m.name, c))
					}
				}
			})
		}
	}
	if *full {
		fmt.Printf("%d of %d checks as expected, %.0f seconds\n", ran-wrong, ran, time.Since(began).Seconds())
	}
}

// TestTrail prints the steps that lead to a state that breaks the rule.
func TestTrail(t *testing.T) {
	if *trail == "" {
		return // only with -trail
	}
	need(t)
	found := false
	for _, m := range models {
		for _, c := range m.checks {
			if *trail != m.name+"/"+c.name && (*trail != m.name || c.want != violated) {
				continue
			}
			found = true
			s := run(t, m.name, c)
			fmt.Printf("%s/%s: %s: %s, %d states\n", m.name, c.name, c.says, s.result, s.states)
			if s.result == string(violated) || s.result == string(reached) {
				fmt.Println(replay(t, s, m.name, c))
			}
		}
	}
	if !found {
		t.Fatalf("no model or check is called %q; \"go test ./lab/models -full -v\" lists all", *trail)
	}
}

// run makes a program from the model with spin, and searches the model with it. The search
// is breadth first, so that a trail is as short as possible.
func run(t *testing.T, model string, c check) search {
	t.Helper()
	s := search{dir: t.TempDir()}
	text, err := os.ReadFile(model + ".pml")
	testbed.NoError(t, err)
	testbed.NoError(t, os.WriteFile(filepath.Join(s.dir, model+".pml"), text, 0o600))
	out, _, err := in(t, s.dir, "spin", append(append([]string{"-a"}, define(c)...), model+".pml")...)
	if err != nil || strings.Contains(out, "Error") {
		t.Fatalf("spin: %v\n%s", err, out)
	}
	level := "-O0" // compiling a twin takes longer than searching it
	if c.want == holds {
		level = "-O2"
	}
	if out, _, err := in(t, s.dir, "gcc", level, "-w", "-DBFS", "-DSAFETY", "-DNOREDUCE", fmt.Sprintf("-DMEMLIM=%d", memory), "-o", "pan", "pan.c"); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, used, err := in(t, s.dir, "nice", "-n", "15", "./pan", "-w24", "-n")
	s.seconds = used.Seconds()
	s.states, s.depth = number(out, `(\d+) states, stored`), number(out, `depth reached (\d+)`)
	switch {
	case strings.Contains(out, "assertion violated") && c.want == reached:
		s.result = string(reached)
	case strings.Contains(out, "assertion violated"):
		s.result = string(violated)
	case strings.Contains(out, "not completed"), strings.Contains(out, "out of memory"), strings.Contains(out, "too small"):
		s.result = "cut off"
	case err == nil && strings.Contains(out, "errors: 0"):
		s.result = string(holds)
	default:
		s.result = "failed"
		t.Logf("pan: %v\n%s", err, out)
	}
	return s
}

// replay prints a trail with the messages of the model.
func replay(t *testing.T, s search, model string, c check) string {
	t.Helper()
	out, _, err := in(t, s.dir, "spin", append(append([]string{"-t", "-T", "-B"}, define(c)...), model+".pml")...)
	if err != nil && out == "" {
		t.Fatalf("spin: %v", err)
	}
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		lines[i] = line[:min(len(line), 160)] // spin prints the whole text of assertions
	}
	return strings.Join(lines, "\n")
}

func define(c check) (args []string) {
	for _, d := range strings.Fields(c.defines) {
		args = append(args, "-D"+d)
	}
	return args
}

// in runs a program in dir, and returns its output and processor time.
func in(t *testing.T, dir, name string, args ...string) (string, time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	used := time.Duration(0)
	if p := cmd.ProcessState; p != nil {
		used = p.UserTime() + p.SystemTime()
	}
	return string(out), used, err
}

func number(text, pattern string) int {
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// need leaves the test to the full tier, and skips it if spin or gcc is missing.
func need(t *testing.T) {
	t.Helper()
	testbed.Full(t, "searches models")
	for _, name := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(name); err != nil {
			testbed.Unavailable(t, name, "Debian: spin, gcc, libc6-dev")
		}
	}
}
