// Schedulers is one node of a service that only runs a job: cron runs on every node, the job only on the
// leader. It is cancelled when the leadership ends, and the term fences its writes to MySQL.
//
//	export DSN='app:secret@tcp(127.0.0.1:3306)/app'
//	export ELECTION_BACKEND=mysql ELECTION_MYSQL_DSN="$DSN"
//	elect schema --apply  # once; needs CREATE
//	mysql app -e 'CREATE TABLE job_run (n BIGINT AUTO_INCREMENT PRIMARY KEY,
//	  term BIGINT NOT NULL, node VARCHAR(255) NOT NULL)'
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
	file := flag.String("config", "", "a configuration file, which the environment overrides (default: none)")
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
	if err := (node{c, db, l, "@every 1m"}).run(ctx); err != nil {
		log.Fatal(err)
	}
}

// A node is one process of the service.
type node struct {
	config   *config.Config
	db       *sql.DB      // the job writes here
	web      net.Listener // serves /metrics
	schedule string       // of the job
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
	metrics := promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	server := &http.Server{Handler: metrics, ReadHeaderTimeout: 5 * time.Second}
	defer server.Close()
	go server.Serve(n.web)

	var gate electiongocron.Gate
	job := n.job(m.ID())
	c := cron.New(cron.WithChain(cron.SkipIfStillRunning(cron.DefaultLogger)))
	if _, err := c.AddFunc(n.schedule, func() { gate.Do(job) }); err != nil { // nodes that do not lead skip
		return err
	}
	c.Start()
	defer c.Stop()
	return electiongroup.Run(ctx, e, gate.Lead, job) // once when a leadership begins, too
}

// job returns a job that writes a row for each run. A run that fails, or is cancelled, is logged.
func (n node) job(id string) election.LeadFunc {
	return func(ctx context.Context, lead *election.Leadership) error {
		if err := n.write(ctx, lead.Term, id); err != nil {
			slog.Error("job failed", "term", lead.Term, "error", err)
		}
		return nil
	}
}

// write writes a row. If another leader has been elected before COMMIT, nothing is written, however long this
// process was delayed. Without an election there is neither another leader nor a fence.
func (n node) write(ctx context.Context, term uint64, id string) error {
	const insert = "INSERT INTO job_run (term, node) VALUES (?, ?)"
	if n.config.Backend != mysql.Name {
		_, err := n.db.ExecContext(ctx, insert, term, id)
		return err
	}
	return mysql.Fence{}.Do(ctx, n.db, name, term, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, insert, term, id)
		return err
	})
}
