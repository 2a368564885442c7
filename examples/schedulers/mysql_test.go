package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/lab/testbed"
)

const patience = 3 * time.Minute // bounds every wait, on a busy machine

const jobTable = "CREATE TABLE job_run (n BIGINT AUTO_INCREMENT PRIMARY KEY, term BIGINT NOT NULL, node VARCHAR(255) NOT NULL)"

type member struct {
	node
	t    *testing.T
	stop func()
	done chan error
}

// startNode runs a node with that environment. Its job is due every second.
func startNode(t *testing.T, db *sql.DB, environ ...string) *member {
	t.Helper()
	c, err := config.Parse("", nil, config.Options{Environ: environ})
	testbed.NoError(t, err)
	web, err := net.Listen("tcp", "127.0.0.1:0")
	testbed.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	m := &member{node{c, db, web, "@every 1s"}, t, stop, make(chan error, 1)}
	go func() { m.done <- m.run(ctx) }()
	t.Cleanup(stop)
	return m
}

func (m *member) end() {
	m.t.Helper()
	m.stop()
	if err := <-m.done; err != nil {
		m.t.Errorf("%s ends: %v", m.config.Election.ID, err)
	}
}

// leads fails unless the node's metrics say that it leads.
func (m *member) leads() {
	m.t.Helper()
	answer, err := http.Get("http://" + m.web.Addr().String() + "/metrics")
	testbed.NoError(m.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if want := `election_leading{election="jobs"} 1` + "\n"; err != nil || !strings.Contains(string(text), want) {
		m.t.Errorf("%s does not lead, by its metrics: %v\n%s", m.config.Election.ID, err, text)
	}
}

func lastRun(t *testing.T, db *sql.DB) (n int64) {
	t.Helper()
	testbed.NoError(t, db.QueryRowContext(t.Context(), "SELECT COALESCE(MAX(n), 0) FROM job_run").Scan(&n))
	return n
}

// someRuns waits for a few runs after that run, and returns the node and the term of them.
func someRuns(t *testing.T, db *sql.DB, after int64) (node string, term int64) {
	t.Helper()
	testbed.Eventually(t, patience, "some runs", func() error {
		runs, terms := 0, 0
		err := db.QueryRowContext(t.Context(), `SELECT COUNT(*), COUNT(DISTINCT term, node), COALESCE(MIN(node), ''), COALESCE(MIN(term), 0)
 FROM job_run WHERE n > ?`, after).Scan(&runs, &terms, &node, &term)
		switch {
		case err != nil:
			return err
		case runs < 4:
			return fmt.Errorf("%d runs so far", runs)
		case terms != 1:
			t.Errorf("the leader did not change, but the job ran under %d terms or nodes", terms)
		}
		return nil
	})
	return node, term
}

// Two nodes on a real server: the job runs only on the leader. When it ends, it continues on
// the next leader under a greater term.
func TestTheNextLeaderContinuesTheJob(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		d := testbed.Shared(t, k).Database(t)
		d.Exec(t, jobTable)
		testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""))
		db := testbed.OpenDB(t, d.User)
		members := map[string]*member{}
		start := func(id string) {
			members[id] = startNode(t, db, "ELECTION_BACKEND=mysql", "ELECTION_MYSQL_DSN="+d.User.FormatDSN(), "ELECTION_TTL=15s", "ELECTION_ID="+id)
		}
		start("a")
		start("b")

		first, term := someRuns(t, db, 0)
		members[first].leads()
		members[first].end() // the job has returned
		second, next := someRuns(t, db, lastRun(t, db))
		if second == first || next <= term {
			t.Errorf("%s ran the job in term %d; after it ended, %s ran it in term %d", first, term, second, next)
		}

		start(first)
		members[second].end()
		third, last := someRuns(t, db, lastRun(t, db))
		if third != first || last <= next {
			t.Errorf("%s ran the job in term %d; after it ended and %s was started again, %s ran it in term %d", second, next, first, third, last)
		}
		members[first].end()
	})
}

// A single process is configured to lead without an election: it leads at once, without the election tables.
func TestASingleProcessRunsTheJobWithoutAnElection(t *testing.T) {
	t.Parallel()
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	d.Exec(t, jobTable)
	db := testbed.OpenDB(t, d.User)
	m := startNode(t, db, "ELECTION_BACKEND=manual", "ELECTION_MANUAL_LEADER=self", "ELECTION_TTL=1m", "ELECTION_ID=a")
	if node, term := someRuns(t, db, 0); node != "a" || term == 0 {
		t.Errorf("%q runs the job in term %d", node, term)
	}
	m.leads()
	m.end()
}
