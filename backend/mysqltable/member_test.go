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

// A member is a process that takes part, ours or another program's, and what it has
// said so far.
type member struct {
	id  string
	cmd *exec.Cmd
	in  io.WriteCloser

	mu     sync.Mutex
	looks  []look   // another program's
	spans  []span   // ours
	leads  bool     // by its latest word
	known  []string // whom ours has known to lead
	broken string
}

// A look is one run of another program's statements, and what it believes since.
type look struct {
	began, ended time.Time
	leads        bool
}

// A span is a time during which one of ours was seen to lead.
type span struct{ from, to time.Time }

// childEnv makes the test binary a member of ours.
const childEnv = "ELECTION_MYSQLTABLE_MEMBER"

type childConfig struct {
	ID, DSN           string
	Layout            Layout
	Threshold, Period time.Duration
	TTL               time.Duration
	Stage             migration.Stage // of the way to mysql; "": does not move
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
	if class.dir != "" {
		os.RemoveAll(class.dir)
	}
	os.Exit(code)
}

// child runs one manager, and says every few milliseconds since when it leads, and whom
// it follows, until its input ends. Then it resigns.
func child(text string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	table, err := Open(Options{DSN: c.DSN, Layout: c.Layout, Threshold: c.Threshold, Period: c.Period})
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
	m, err := election.New(b, &election.Options{ID: c.ID, TTL: c.TTL})
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
		// It led between two answers, however long the process stood still beside them.
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

// startOurs starts a member of ours.
func (l *lab) startOurs(t *testing.T, id string) *member { return l.startAt(t, id, "") }

// startAt starts a member of ours at a stage of the way to mysql.
func (l *lab) startAt(t *testing.T, id string, stage migration.Stage) *member {
	t.Helper()
	config, err := json.Marshal(childConfig{id, l.User.FormatDSN(), l.options.Layout, l.options.Threshold, l.options.Period, ttl, stage})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(config))
	return start(t, id, cmd)
}

// class is where the Java program is, once it is compiled.
var class struct {
	sync.Mutex
	dir string
}

const driverJar = "/usr/share/java/mariadb-java-client.jar"

// compiled compiles the Java program, once. The test is skipped where Java or its
// driver is not installed, or fails in CI.
func compiled(t *testing.T) string {
	t.Helper()
	class.Lock()
	defer class.Unlock()
	if class.dir != "" {
		return class.dir
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
	class.dir = dir
	return dir
}

// startTheirs starts a member of another program.
func (l *lab) startTheirs(t *testing.T, id string) *member {
	t.Helper()
	check := map[Layout]string{
		LastSeenActive: "select count(*) as is_leader from leader_election where name=? and node=?",
		UpdateTime:     "select count(*) from leader_election where service_id=? and leader_id=?",
	}[l.options.Layout]
	// The first fleet goes by the number of changed rows, which this makes right.
	url := fmt.Sprintf("jdbc:mariadb://%s/%s?useAffectedRows=true&allowPublicKeyRetrieval=true", l.User.Addr, l.Name)
	cmd := exec.Command("java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", compiled(t)+":"+driverJar, "Member",
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
			m.heard(s.Text())
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // it may be stopped
		<-read
		cmd.Wait()
	})
	return m
}

// heard takes down one line.
func (m *member) heard(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var a, b int64
	var leads bool
	if n, _ := fmt.Sscanf(line, "look %d %d %t", &a, &b, &leads); n == 3 {
		// Its clock has milliseconds, cut: it ended up to one later.
		m.looks = append(m.looks, look{time.UnixMilli(a), time.UnixMilli(b + 1), leads})
		m.leads = leads
		return
	}
	if n, _ := fmt.Sscanf(line, "span %d %d %t", &a, &b, &leads); n == 3 {
		s := span{time.Unix(0, a), time.Unix(0, b)}
		if last := len(m.spans) - 1; last >= 0 && m.spans[last].from.Equal(s.from) {
			m.spans[last] = s
		} else {
			m.spans = append(m.spans, s)
		}
		m.leads = leads
		return
	}
	if id, ok := strings.CutPrefix(line, "leader "); ok {
		m.known = append(m.known, id)
		return
	}
	m.broken = line
}

// knew reports whether one of ours has known this one to lead.
func (m *member) knew(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.known, id)
}

// leading reports whether it leads, by its latest word.
func (m *member) leading() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leads
}

// looked returns how often another program has looked.
func (m *member) looked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.looks)
}

// looksSince returns how often another program has begun to look since then.
func (m *member) looksSince(then time.Time) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.looks {
		if k.began.After(then) {
			n++
		}
	}
	return n
}

// ledSince reports whether another program has found itself the leader by such a look.
func (m *member) ledSince(then time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.looks, func(k look) bool { return k.leads && k.began.After(then) })
}

// forget drops its latest word, so that the next one counts.
func (m *member) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leads = false
}

func (m *member) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := m.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
