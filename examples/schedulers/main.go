// Schedulers is one node of a service that only runs jobs: cron runs on every
// node, the jobs only on the leader. They are cancelled when its leadership ends,
// and its term fences their writes to MySQL.
//
//	export DSN='app:secret@tcp(127.0.0.1:3306)/app'
//	export ELECTION_BACKEND=mysql ELECTION_MYSQL_DSN="$DSN"
//	elect schema --apply  # once; needs CREATE
//	mysql app -e 'CREATE TABLE job_run (n BIGINT AUTO_INCREMENT PRIMARY KEY,
//	  job VARCHAR(64) NOT NULL, term BIGINT NOT NULL, node VARCHAR(255) NOT NULL)'
//	ELECTION_ID=a go run . -web 127.0.0.1:8080    # /metrics
//	ELECTION_ID=b go run . -web 127.0.0.1:8081
//
// A single process needs no election. That takes another configuration, not other code:
//
//	ELECTION_BACKEND=manual ELECTION_MANUAL_LEADER=self go run .
//
// The program is a separate module, so that users of go-election do not depend on gocron
// and robfig/cron. What it takes from package electiongocron works with any scheduler.
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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/robfig/cron/v3"

	_ "github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiongocron"
	"github.com/go-election/go-election/electiongroup"
	"github.com/go-election/go-election/electionprom"
)

const name = "jobs"

func main() {
	file := flag.String("config", "", "a configuration file, which the environment overrides (default: the environment alone)")
	web := flag.String("web", "127.0.0.1:8080", "the address of /metrics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once

	db, err := sql.Open("mysql", os.Getenv("DSN"))
	if err != nil {
		log.Fatal(err)
	}
	c, err := config.Load(*file, config.Options{})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", *web)
	if err != nil {
		log.Fatal(err)
	}
	if err := (node{c, db, l, "@every 1m", "@every 5m"}).run(ctx); err != nil {
		log.Fatal(err)
	}
}

// A node is one process of the service.
type node struct {
	config         *config.Config
	db             *sql.DB      // the jobs write here
	web            net.Listener // serves /metrics
	report, settle string       // schedules of the two jobs
}

// run runs the node until ctx ends. Cron runs whether the node leads or not.
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

	r := prometheus.NewRegistry()
	r.MustRegister(electionprom.New(m, electionprom.Options{}))
	server := &http.Server{Handler: promhttp.HandlerFor(r, promhttp.HandlerOpts{}), ReadHeaderTimeout: 5 * time.Second}
	defer server.Close()
	go server.Serve(n.web)

	var gate electiongocron.Gate
	report, settle := n.job("report", m.ID()), n.job("settle", m.ID())
	c := cron.New(cron.WithChain(cron.SkipIfStillRunning(cron.DefaultLogger)))
	_, err = c.AddJob(n.report, onLeader(&gate, report))
	if err == nil {
		_, err = c.AddJob(n.settle, onLeader(&gate, settle))
	}
	if err != nil {
		return err
	}
	c.Start()
	defer c.Stop()
	return electiongroup.Run(ctx, e, gate.Lead, report) // a report when a leadership begins, too
}

// onLeader returns a job for robfig/cron that runs only on the leader. Other nodes skip it without an error.
func onLeader(g *electiongocron.Gate, job election.LeadFunc) cron.Job {
	return cron.FuncJob(func() { g.Do(job) })
}

// job returns a job that writes a row for each run. A run that fails, or is cancelled, is logged.
func (n node) job(job, id string) election.LeadFunc {
	return func(ctx context.Context, lead *election.Leadership) error {
		if err := n.write(ctx, lead.Term, job, id); err != nil {
			slog.Error("job failed", "job", job, "term", lead.Term, "error", err)
		}
		return nil
	}
}

// write writes a row. If another leader has been elected before COMMIT, nothing is written, however long this process
// was delayed. Without an election there is no other leader and no term table, so the write is not fenced.
func (n node) write(ctx context.Context, term uint64, job, id string) error {
	const insert = "INSERT INTO job_run (job, term, node) VALUES (?, ?, ?)"
	if n.config.Backend != mysql.Name {
		_, err := n.db.ExecContext(ctx, insert, job, term, id)
		return err
	}
	return mysql.Fence{}.Do(ctx, n.db, name, term, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, insert, job, term, id)
		return err
	})
}
