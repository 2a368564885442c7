// Schedulers is one node of a service that only runs jobs: cron runs on every
// node, the jobs only on the leader. They are cancelled when its leadership ends,
// and what they write to MySQL is fenced by its term.
//
//	export DSN='app:secret@tcp(127.0.0.1:3306)/app'
//	export ELECTION_BACKEND=mysql ELECTION_MYSQL_DSN="$DSN"
//	go run . -create     # once: makes the tables, as a user who may
//	ELECTION_ID=a go run . -web 127.0.0.1:8080    # /metrics
//	ELECTION_ID=b go run . -web 127.0.0.1:8081
//	elect pause jobs     # from another terminal; and: elect resume jobs
//
// A single process needs no election. That is a matter of configuration, not of code:
//
//	ELECTION_BACKEND=manual ELECTION_MANUAL_LEADER=self go run .
//
// It is a module of its own, so that users of go-election do not see gocron and
// robfig/cron. gate.go and jobs.go are what to copy; locker.go is for gocron's other mode.
package main

import (
	"context"
	"database/sql"
	"flag"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
)

const name = "jobs"

func main() {
	file := flag.String("config", "", "a configuration file; without one, and over it, the environment counts")
	web := flag.String("web", "127.0.0.1:8080", "where /metrics is")
	socket := flag.String("socket", "", "where elect pause, resume and resign reach this process (default: where elect looks)")
	create := flag.Bool("create", false, "make the tables and exit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once

	db, err := sql.Open("mysql", os.Getenv("DSN"))
	if err != nil {
		log.Fatal(err)
	}
	c, err := config.Load(*file, nil)
	if err != nil {
		log.Fatal(err)
	}
	if *create {
		err = createTables(ctx, db, c.Backend)
	} else {
		var l net.Listener
		if l, err = net.Listen("tcp", *web); err == nil {
			err = node{c, db, l, *socket, "@every 1m", "@every 5m"}.run(ctx)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

func createTables(ctx context.Context, db *sql.DB, backend string) error {
	if backend == mysql.Name {
		if err := mysql.CreateTables(ctx, db, "", ""); err != nil {
			return err
		}
	}
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS job_run (
 n BIGINT AUTO_INCREMENT PRIMARY KEY, job VARCHAR(64) NOT NULL, term BIGINT NOT NULL, node VARCHAR(255) NOT NULL)`)
	return err
}

// A node is one process: how it elects, where its jobs write, where it shows metrics and
// is spoken to, and when the two jobs run.
type node struct {
	config         *config.Config
	db             *sql.DB
	web            net.Listener
	socket         string
	report, settle string
}

// run is the node until ctx ends.
func (n node) run(ctx context.Context) error {
	m, err := n.config.Open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		m.Close(end)
	}()
	e, err := m.Join(name)
	if err != nil {
		return err
	}

	s := newService(
		&task{name: "report", every: n.report, first: true, do: n.job("report", m.ID())},
		&task{name: "settle", every: n.settle, do: n.job("settle", m.ID())},
	)
	mux := http.NewServeMux()
	mux.Handle("/metrics", s.metrics(m))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer server.Close()
	go server.Serve(n.web)
	go func() {
		if err := electionhttp.ServeLocal(ctx, m, n.socket); err != nil {
			slog.Warn("elect pause and resume do not reach this process", "error", err)
		}
	}()
	return s.run(ctx, e)
}

// job writes that it has run. If another leader has been elected by the time of COMMIT,
// whatever has delayed this process, nothing is written. A process that is not elected
// has no other to be fenced from, and no tables to fence by.
func (n node) job(job, id string) election.LeadFunc {
	return func(ctx context.Context, lead *election.Leadership) error {
		work := func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO job_run (job, term, node) VALUES (?, ?, ?)", job, lead.Term, id)
			return err
		}
		if n.config.Backend == mysql.Name {
			return mysql.Fence{}.Do(ctx, n.db, name, lead.Term, work)
		}
		return unfenced(ctx, n.db, work)
	}
}

func unfenced(ctx context.Context, db *sql.DB, work func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}
