// Package mutants breaks package election, the lease protocol, the guard and the backends of Kubernetes and SQL on purpose:
// the check for each rule must find each mutant. (Broken backends are in package conformance.) A mutant replaces text in a
// file of the package. "go test -overlay" applies it, so the source tree is never changed.
package mutants

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

var (
	all  = flag.Bool("mutants.all", false, "try all mutants, not only some")
	only = flag.String("mutants.only", "", "try only mutants whose names contain this")
)

// A mutant is one mistake, with the check that must find it.
type mutant struct {
	name     string
	file     string // in the package
	old, new string // old must occur exactly once, or the table is out of date
	rule     string // text in the output of the failing check
	check    check
}

// A check runs tests of a package against a mutant, without the race detector, for
// speed. The package may be a module of its own.
type check struct {
	pkg, run string
	args     []string
}

// simulation runs the simulation with faults of all kinds.
var simulation = check{"./election", "TestSimulation$", []string{"-sim.hours=140"}}

func core(test string) check { return check{"./election", "^" + test + "$", nil} }

// suite runs one of the suite's cases about the manager, on memory.
func suite(title string) check {
	return check{"./conformance", "TestManagers/pushed/cases/" + strings.ReplaceAll(title, " ", "_"), nil}
}

// some: by default, one of so many mutants is tried.
const some = 6

func TestEachBrokenCoreIsFound(t *testing.T) { tryAll(t, "", mutants) }

// tryAll tries mutants of a package whose folder, seen from package election, is dir. In a fast run it only checks
// that they can be made.
func tryAll(t *testing.T, dir string, mutants []mutant) {
	names := map[string]bool{}
	tried, killed := 0, 0
	for i, m := range mutants {
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		overlay, err := m.overlay(dir, t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if testing.Short() || *only != "" && !strings.Contains(m.name, *only) || *only == "" && !*all && i%some != 0 {
			continue
		}
		tried++
		if err := m.try(t, overlay); err != nil {
			t.Errorf("mutant %q: %v", m.name, err)
			continue
		}
		killed++
		fmt.Printf("mutant %-62s killed by %s\n", m.name+":", m.rule)
	}
	testbed.Full(t, "builds many mutants")
	fmt.Printf("%d/%d mutants killed\n", killed, tried)
}

// onServers leaves mutants whose checks each start a server to -mutants.all and -mutants.only. Where start shows that a
// server is missing, they are skipped, as their checks would be.
func onServers(t *testing.T, start func(t *testing.T)) {
	if !*all && *only == "" {
		t.Skip("starts a server for each mutant: needs -mutants.all or -mutants.only")
	}
	available := false
	t.Run("there are servers", func(t *testing.T) {
		start(t)
		available = true
	})
	if !available {
		t.Skip("a server is missing")
	}
}

// overlay writes the broken file, and the overlay file for the go command.
func (m mutant) overlay(folder, dir string) (path string, err error) {
	file, err := filepath.Abs(filepath.Join("..", "..", "election", folder, m.file))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s contains this %d times, want once; update the table of mutants:\n%s", m.file, n, m.old)
	}
	broken := filepath.Join(dir, m.file)
	if err := os.WriteFile(broken, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, replace, 0o600)
}

// try returns an error if the check passes, or if it fails for another reason than the rule.
func (m mutant) try(t *testing.T, overlay string) error {
	dir, pkg := filepath.Join("..", ".."), m.check.pkg
	if nested := filepath.Join(dir, pkg); exists(filepath.Join(nested, "go.mod")) {
		dir, pkg = nested, "."
	}
	args := append([]string{"test", "-vet=off", "-count=1", "-timeout=20m", "-overlay", overlay, "-run", m.check.run, pkg}, m.check.args...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return err
	}
	switch text := string(out); {
	case strings.Contains(text, "[no tests to run]"):
		return fmt.Errorf("%s has no test %s", m.check.pkg, m.check.run)
	case err == nil:
		return fmt.Errorf("SURVIVES: %s %s does not find it", m.check.pkg, m.check.run)
	case strings.Contains(text, "[build failed]"), !strings.Contains(text, m.rule):
		return fmt.Errorf("not found by %s, but:\n%.3000s", m.rule, text)
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
