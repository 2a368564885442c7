// Postgres is one process of an election in a program that has its own pool of PostgreSQL. The leader writes
// a row each second, under a fence. Start it several times, and kill the one that leads.
//
//	export DSN='postgres://app:secret@127.0.0.1:5432/app'
//	psql "$DSN" -c 'CREATE TABLE invoice (id bigserial PRIMARY KEY, term numeric NOT NULL)'
//	go run ./examples/postgres -id a
//	go run ./examples/postgres -id b
//
// The first process makes the table of the elections, or "elect schema --apply" where its account may not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/election"
)

func main() {
	id := flag.String("id", "", "this candidate's id (default: host, pid and random characters)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once

	pool, err := pgxpool.New(ctx, os.Getenv("DSN"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := run(ctx, pool, election.Options{ID: *id}); err != nil {
		log.Fatal(err)
	}
}

// run takes part in the election until ctx ends, and then hands over.
func run(ctx context.Context, pool *pgxpool.Pool, o election.Options) error {
	store, err := postgres.Open(postgres.Options{Pool: pool})
	if err != nil {
		return err
	}
	m, err := election.New(store, o)
	if err != nil {
		return err
	}
	if err := m.Check(ctx); errors.Is(err, backend.ErrDenied) { // any other error may pass by itself
		m.Close(ctx)
		return err
	}
	e, err := m.Join("billing")
	if err != nil {
		return err
	}
	e.Watch(func(ev election.Event) { fmt.Println(ev.Time.Format("15:04:05.000"), ev) })

	err = e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		fmt.Printf("I lead in term %d\n", lead.Term)
		return bill(ctx, pool, lead)
	})
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, m.Close(end))
}

// bill writes an invoice each second while this process leads. A process that was stopped in the middle of
// it, and continues when another one leads, writes nothing.
func bill(ctx context.Context, pool *pgxpool.Pool, lead *election.Leadership) error {
	for {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := (postgres.Fence{}).Check(ctx, tx, lead.Election(), lead.Term); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO invoice (term) VALUES ($1)", lead.Term)
			return err
		})
		if err != nil && ctx.Err() == nil {
			return err
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
