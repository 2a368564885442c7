// Schedulers is one node of a service that only runs jobs: cron runs on every
// node, the jobs only on the leader. They are cancelled when its leadership ends,
// and what they write to MySQL is fenced by its term.
//
//	export DSN='app:secret@tcp(127.0.0.1:3306)/app'
//	go run . -create     # once: makes the tables, as a user who may
//	go run . -id a
//	go run . -id b
//
// It is a module of its own, so that users of go-election do not see gocron and
// robfig/cron. gate.go is what to copy; locker.go is for gocron's other mode.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
)

const name = "jobs"

func main() {
	id := flag.String("id", "", "this node's id (default: made of host, pid and chance)")
	every := flag.String("every", "@every 1m", "when the job runs")
	ttl := flag.Duration("ttl", election.DefaultTTL, "how long a lease lasts that is not renewed")
	create := flag.Bool("create", false, "make the tables and exit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	db, err := sql.Open("mysql", os.Getenv("DSN"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if *create {
		err = createTables(ctx, db)
	} else {
		err = run(ctx, db, os.Getenv("DSN"), *id, *every, *ttl)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func createTables(ctx context.Context, db *sql.DB) error {
	if err := mysql.CreateTables(ctx, db, "", ""); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS job_run (
 n BIGINT AUTO_INCREMENT PRIMARY KEY, term BIGINT NOT NULL, node VARCHAR(255) NOT NULL)`)
	return err
}

// run is one node, until ctx ends: elections by dsn, jobs on db, in the same server.
func run(ctx context.Context, db *sql.DB, dsn, id, every string, ttl time.Duration) error {
	store, err := mysql.Open(ctx, mysql.Options{DSN: dsn})
	if err != nil {
		return err
	}
	m, err := election.New(store, &election.Options{ID: id, TTL: ttl})
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

	var gate Gate
	c := cron.New()
	if _, err := c.AddJob(every, onLeader(&gate, func(ctx context.Context, lead *election.Leadership) error {
		return job(ctx, db, lead.Term, m.ID())
	})); err != nil {
		return err
	}
	c.Start()
	defer c.Stop()
	return e.Run(ctx, gate.Lead)
}

// onLeader makes a job for robfig/cron that runs only on the leader.
func onLeader(g *Gate, job func(context.Context, *election.Leadership) error) cron.Job {
	return cron.FuncJob(func() {
		if err := g.Do(job); err != nil && !errors.Is(err, errNotLeader) {
			slog.Error("job failed", "error", err)
		}
	})
}

// job writes that it has run. If another leader has been elected by the time of
// COMMIT, whatever has delayed this process, nothing is written.
func job(ctx context.Context, db *sql.DB, term uint64, node string) error {
	return mysql.Fence{}.Do(ctx, db, name, term, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO job_run (term, node) VALUES (?, ?)", term, node)
		return err
	})
}
