// Command river is a member of River's own election, which decides who runs its maintenance: the peer on
// PostgreSQL of package bench. River has one election for each schema, and its lease lasts 15 s.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// A role is what the parent wants of this process: a part of bench's.
type role struct{ ID, Server, Name string }

func main() {
	var r role
	if err := json.Unmarshal([]byte(os.Getenv("ELECTION_BENCH_ROLE")), &r); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // end with the parent
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if err := run(ctx, r); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, r role) error {
	pool, err := pgxpool.New(ctx, r.Server)
	if err != nil {
		return err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	if err := migrate(ctx, pool, driver, r.Name); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[job]) error { return nil }))
	client, err := river.NewClient(driver, &river.Config{
		ID: r.ID, Schema: r.Name, Logger: slog.New(watcher{r}), Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.Background()); err != nil {
		return err
	}
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return client.Stop(end)
}

type job struct{}

func (job) Kind() string { return "none" }

// migrate makes River's tables. Members begin at once, so it takes a lock.
func migrate(ctx context.Context, pool *pgxpool.Pool, driver *riverpgxv5.Driver, schema string) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(1)"); err != nil {
		return err
	}
	defer conn.Exec(context.Background(), "SELECT pg_advisory_unlock(1)")
	if _, err := conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
		return err
	}
	m, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// A watcher reports what River logs of its leadership.
type watcher struct{ role }

func (watcher) Enabled(context.Context, slog.Level) bool { return true }
func (w watcher) WithAttrs([]slog.Attr) slog.Handler     { return w }
func (w watcher) WithGroup(string) slog.Handler          { return w }
func (w watcher) Handle(_ context.Context, r slog.Record) error {
	if strings.HasSuffix(r.Message, ": Gained leadership") {
		for _, what := range []string{"leads", "all"} {
			text, _ := json.Marshal(map[string]any{"ID": w.ID, "What": what, "At": time.Now()})
			fmt.Printf("%s\n", text)
		}
	}
	return nil
}
