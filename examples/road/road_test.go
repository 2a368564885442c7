package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/lab/testbed"
)

// build compiles the program.
func build(t *testing.T) (binary string) {
	t.Helper()
	testbed.Full(t, "kills and stops processes")
	binary = filepath.Join(t.TempDir(), "road")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// command runs the program with its directories in memory, so that a busy disk, which may
// stall for half a minute, does not fail these tests.
func command(t *testing.T, binary string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = os.Environ()
	if _, err := os.Stat("/dev/shm"); err == nil {
		cmd.Env = append(cmd.Env, "TMPDIR=/dev/shm")
	}
	return cmd
}

// checkOutput fails unless the output shows the whole migration and the way back.
func checkOutput(t *testing.T, out []byte, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`deployment: from "from" to "both"`, `deployment: from "both" to "to"`, `deployment: from "to" to "both"`, `deployment: from "both" to "from"`,
		`at stage "from", leads`, `at stage "both", leads`, `at stage "to", leads`, `kill -9`, `is asked to leave`,
		`was forgotten, and cannot lead: .* has moved to`,
		`\d+ leaderships of \d+ processes. At every instant at most one process believed that it led, and terms grew`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("the output lacks %s:\n%s", want, out)
		}
	}
}

func TestAFleetMovesBetweenTwoDirectories(t *testing.T) {
	binary := build(t)
	for seed := range 3 {
		t.Run(fmt.Sprint("seed=", seed+1), func(t *testing.T) {
			t.Parallel()
			out, err := command(t, binary, "-seed", fmt.Sprint(seed+1)).CombinedOutput()
			checkOutput(t, out, err)
		})
	}
}

// The fleet moves between two real stores, with road.yaml unchanged except for the addresses.
func TestAFleetMovesBetweenTwoRealStores(t *testing.T) {
	t.Parallel()
	db := testbed.Shared(t, testbed.MariaDB).Database(t)
	if err := mysql.CreateTables(t.Context(), testbed.OpenDB(t, db.Admin), "", ""); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, build(t), "-config", "road.yaml", "-seed", "1")
	cmd.Env = append(cmd.Env,
		"ELECTION_CURATOR_SERVERS="+strings.Join(testbed.SharedZooKeeper(t), ","),
		"ELECTION_CURATOR_ROOT=/road"+string(backend.NewNonce()[:8]),
		"ELECTION_MYSQL_DSN="+db.User.FormatDSN())
	out, err := cmd.CombinedOutput()
	checkOutput(t, out, err)
}

// Without the stage "both" there are two leaders, and the program reports them.
func TestAJumpShowsTwoLeaders(t *testing.T) {
	t.Parallel()
	out, err := command(t, build(t), "-jump").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "TWO LEADERS") {
		t.Errorf("%v; want exit status 1, and two leaders:\n%s", err, out)
	}
}

func TestHistoriesAreChecked(t *testing.T) {
	at := func(id string, term uint64, from, to int) leadership {
		return leadership{id, migration.Both, term, time.UnixMilli(int64(from)), time.UnixMilli(int64(to))}
	}
	for _, c := range []struct {
		name    string
		history []leadership
		want    string
	}{
		{"one after the other", []leadership{at("b", 2, 20, 30), at("a", 1, 10, 20)}, ""},
		{"nobody", nil, ""},
		{"two at a time", []leadership{at("a", 1, 10, 21), at("b", 2, 20, 30)}, "TWO LEADERS: a"},
		{"one within another", []leadership{at("a", 1, 10, 50), at("b", 2, 20, 30), at("c", 3, 40, 45)}, "TWO LEADERS: a"},
		{"a term again", []leadership{at("a", 2, 10, 20), at("b", 2, 21, 30)}, "TERMS WENT BACK"},
		{"a term that is less", []leadership{at("a", 2, 10, 20), at("b", 1, 21, 30)}, "TERMS WENT BACK"},
	} {
		err := checkHistory(c.history)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}
