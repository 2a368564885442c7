package mysqltable

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
)

// A member is a process that takes part, of this module or another program, and what it has
// reported so far.
type member struct {
	id  string
	cmd *exec.Cmd
	in  io.WriteCloser

	mu          sync.Mutex
	runs        []run    // of another program
	spans       []span   // of a member of this module
	saidLeading bool     // by its latest report
	known       []string // leaders that a member of this module has followed
	broken      string
}

// A run is one run of another program's statements, and whether it believes to lead since.
type run struct {
	began, ended time.Time
	leads        bool
}

// A span is a time during which a member of this module reported that it leads.
type span struct{ from, to time.Time }

// childEnv makes the test binary a member of this module.
const childEnv = "ELECTION_MYSQLTABLE_MEMBER"

type childConfig struct {
	ID, DSN   string
	Layout    Layout
	Threshold time.Duration
	TTL       time.Duration
	Stage     migration.Stage // of the migration to mysql; "": none
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if javaClass.dir != "" {
		os.RemoveAll(javaClass.dir)
	}
	os.Exit(code)
}

// child runs one manager until its input ends, then resigns. Every few milliseconds it reports
// since when it leads, and which leader it follows.
func child(text string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	table, err := Open(Options{MySQL: mysql.Options{DSN: c.DSN}, Layout: c.Layout, Threshold: c.Threshold})
	if err != nil {
		return err
	}
	var b backend.Backend = table
	if c.Stage != "" {
		native, err := mysql.Open(mysql.Options{DSN: c.DSN})
		if err != nil {
			return err
		}
		if b, err = migration.New(migration.Options{From: table, To: native, Stage: c.Stage}); err != nil {
			return err
		}
	}
	m, err := election.New(b, election.Options{ID: c.ID, TTL: c.TTL})
	if err != nil {
		return err
	}
	e, err := m.Join("jobs")
	if err != nil {
		return err
	}
	if err := e.Lead(nil); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { io.Copy(io.Discard, os.Stdin); close(ended) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var from, to, said time.Time
	var leader string
	for stop := false; !stop; {
		select {
		case <-ended:
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := m.Close(ctx); err != nil {
				return err
			}
			stop = true
		case <-tick.C:
		}
		// It led between two calls of Leading, however long the process stalled around them.
		now := time.Now()
		leads := e.Leading()
		if leads && from.IsZero() {
			from = time.Now()
			to = from
		} else if leads && now.After(to) {
			to = now
		}
		if !from.IsZero() && (!leads || now.Sub(said) > 20*time.Millisecond) {
			fmt.Println("span", from.UnixNano(), to.UnixNano(), leads)
			said = now
		}
		if !leads {
			from = time.Time{}
		}
		if who, _, _ := e.Leader(); who.ID != leader {
			leader = who.ID
			fmt.Println("leader", leader)
		}
	}
	return nil
}

// startMember starts a member of this module.
func (l *lab) startMember(t *testing.T, id string) *member { return l.startAt(t, id, "") }

// startAt starts a member of this module at a stage of the migration to mysql.
func (l *lab) startAt(t *testing.T, id string, stage migration.Stage) *member {
	t.Helper()
	config, err := json.Marshal(childConfig{id, l.User.FormatDSN(), l.options.Layout, l.options.Threshold, ttl, stage})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(config))
	return start(t, id, cmd)
}

// javaClass has the directory of the Java program, once it is compiled.
var javaClass struct {
	sync.Mutex
	dir string
}

const driverJar = "/usr/share/java/mariadb-java-client.jar"

// compileJava compiles the Java program, once. Without Java or its driver the test is skipped,
// or fails in CI.
func compileJava(t *testing.T) string {
	t.Helper()
	javaClass.Lock()
	defer javaClass.Unlock()
	if javaClass.dir != "" {
		return javaClass.dir
	}
	_, err := exec.LookPath("javac")
	if err == nil {
		_, err = os.Stat(driverJar)
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v (Debian: default-jdk-headless, libmariadb-java)", err)
		}
		t.Skipf("%v (Debian: default-jdk-headless, libmariadb-java)", err)
	}
	dir, err := os.MkdirTemp("", "mysqltable")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("javac", "-d", dir, filepath.Join("testdata", "Member.java")).CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		t.Fatalf("javac: %v\n%s", err, out)
	}
	javaClass.dir = dir
	return dir
}

// startProgram starts a member of another program.
func (l *lab) startProgram(t *testing.T, id string) *member {
	t.Helper()
	check := map[Layout]string{
		LastSeenActive: "select count(*) as is_leader from leader_election where name=? and node=?",
		UpdateTime:     "select count(*) from leader_election where service_id=? and leader_id=?",
	}[l.options.Layout]
	// The first fleet goes by the number of changed rows, which needs useAffectedRows.
	url := fmt.Sprintf("jdbc:mariadb://%s/%s?useAffectedRows=true&allowPublicKeyRetrieval=true", l.User.Addr, l.Name)
	cmd := exec.Command("java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", compileJava(t)+":"+driverJar, "Member",
		url, l.User.User, fmt.Sprintf(upserts[l.options.Layout], "leader_election"), check, "jobs", id,
		fmt.Sprint(int(l.options.Threshold/time.Second)), fmt.Sprint(theirPeriod.Milliseconds()))
	cmd.Env = append(os.Environ(), "PASSWORD="+l.User.Passwd)
	return start(t, id, cmd)
}

func start(t *testing.T, id string, cmd *exec.Cmd) *member {
	t.Helper()
	m := &member{id: id, cmd: cmd}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.in = in
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			m.record(s.Text())
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // it may be stopped
		<-read
		cmd.Wait()
	})
	return m
}

// record records one line of the member's output.
func (m *member) record(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var a, b int64
	var leads bool
	if n, _ := fmt.Sscanf(line, "run %d %d %t", &a, &b, &leads); n == 3 {
		// Its times are truncated to milliseconds: it ended up to one later.
		m.runs = append(m.runs, run{time.UnixMilli(a), time.UnixMilli(b + 1), leads})
		m.saidLeading = leads
		return
	}
	if n, _ := fmt.Sscanf(line, "span %d %d %t", &a, &b, &leads); n == 3 {
		s := span{time.Unix(0, a), time.Unix(0, b)}
		if last := len(m.spans) - 1; last >= 0 && m.spans[last].from.Equal(s.from) {
			m.spans[last] = s
		} else {
			m.spans = append(m.spans, s)
		}
		m.saidLeading = leads
		return
	}
	if id, ok := strings.CutPrefix(line, "leader "); ok {
		m.known = append(m.known, id)
		return
	}
	m.broken = line
}

// knew reports whether a member of this module has followed this leader.
func (m *member) knew(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.known, id)
}

// leading reports whether it leads, by its latest report.
func (m *member) leading() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saidLeading
}

// runCount returns how often another program has run its statements.
func (m *member) runCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.runs)
}

// runsSince returns how many runs another program has begun since then.
func (m *member) runsSince(then time.Time) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.runs {
		if k.began.After(then) {
			n++
		}
	}
	return n
}

// ledSince reports whether another program was the leader after such a run.
func (m *member) ledSince(then time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.runs, func(k run) bool { return k.leads && k.began.After(then) })
}

// forget drops its latest report, so that the next one counts.
func (m *member) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saidLeading = false
}

func (m *member) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
