// Command river is a member of River's own election, which decides who runs its maintenance: the peer on
// PostgreSQL of package bench. River has one election for each schema, and its lease lasts 15 s. Of a fleet
// it is several members, each with connections of its own. At SIGHUP the one that leads resigns.
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
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
	resign := make(chan os.Signal, 1)
	signal.Notify(resign, syscall.SIGHUP)
	say(r.ID, "opens")
	var members []*member
	for i, id := range strings.Split(r.ID, ",") {
		m := &member{id: id}
		if err := m.start(r, i == 0); err != nil {
			log.Fatal(err)
		}
		members = append(members, m)
	}
	say(r.ID, "ready")
	for ctx.Err() == nil {
		select {
		case <-resign:
			for _, m := range members {
				go m.resign()
			}
		case <-ctx.Done():
		}
	}
	var ending sync.WaitGroup
	for _, m := range members {
		ending.Go(m.stop)
	}
	ending.Wait()
}

// A member is one process. It reads from River's log when it leads.
type member struct {
	id     string
	client *river.Client[pgx.Tx]
	leads  atomic.Bool
}

func (m *member) start(r role, first bool) error {
	config, err := pgxpool.ParseConfig(r.Server)
	if err != nil {
		return err
	}
	config.MaxConns = 3 // a fleet of 300 must fit on the server; one of them listens
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return err
	}
	driver := riverpgxv5.New(pool)
	if first {
		if err := migrate(context.Background(), pool, driver, r.Name); err != nil {
			return err
		}
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[job]) error { return nil }))
	m.client, err = river.NewClient(driver, &river.Config{
		ID: m.id, Schema: r.Name, Logger: slog.New(m), Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
	})
	if err != nil {
		return err
	}
	return m.client.Start(context.Background())
}

func (m *member) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := m.client.Stop(ctx); err != nil {
		log.Fatal(err)
	}
}

func (m *member) resign() {
	if !m.leads.Swap(false) {
		return
	}
	say(m.id, "resigns")
	m.stop()
	time.Sleep(2500 * time.Millisecond) // like the others: a quarter of the TTL
	if err := m.client.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
}

type job struct{}

func (job) Kind() string { return "none" }

// migrate makes River's tables. Members begin at once, so it takes a lock.
func migrate(ctx context.Context, pool *pgxpool.Pool, d *riverpgxv5.Driver, schema string) error {
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
	m, err := rivermigrate.New(d, &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (*member) Enabled(context.Context, slog.Level) bool { return true }
func (m *member) WithAttrs([]slog.Attr) slog.Handler     { return m }
func (m *member) WithGroup(string) slog.Handler          { return m }
func (m *member) Handle(_ context.Context, r slog.Record) error {
	if strings.HasSuffix(r.Message, ": Gained leadership") {
		m.leads.Store(true)
		say(m.id, "leads")
		say(m.id, "all")
	}
	return nil
}

// say reports to the parent. Each line is one write.
func say(id, what string) {
	text, _ := json.Marshal(map[string]any{"ID": id, "What": what, "At": time.Now()})
	fmt.Printf("%s\n", text)
}
