// Mysql is one process of an election on MySQL or MariaDB. Start it several
// times, on one machine or on many, and kill the one that leads.
//
//	export DSN='app:secret@tcp(127.0.0.1:3306)/app'
//	go run ./examples/mysql -create      # once: creates the tables; needs CREATE
//	go run ./examples/mysql -id a
//	go run ./examples/mysql -id b
//
// It prints one line for each change of leader. After SIGTERM or ctrl-c another process
// leads at once; after kill -9, when the TTL has passed.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
)

func main() {
	name := flag.String("election", "demo", "name of the election")
	id := flag.String("id", "", "this candidate's id (default: host, pid and random characters)")
	ttl := flag.Duration("ttl", election.DefaultTTL, "how long a lease lasts without a renewal")
	create := flag.Bool("create", false, "create the tables and exit")
	verbose := flag.Bool("v", false, "log to standard error")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once

	var err error
	if *create {
		err = createTables(ctx, os.Getenv("DSN"))
	} else {
		err = run(ctx, os.Getenv("DSN"), *name, *id, *ttl, *verbose)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func createTables(ctx context.Context, dsn string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return mysql.CreateTables(ctx, db, "", "")
}

func run(ctx context.Context, dsn, name, id string, ttl time.Duration, verbose bool) error {
	store, err := mysql.Open(mysql.Options{DSN: dsn})
	if err != nil {
		return err
	}
	o := election.Options{ID: id, TTL: ttl}
	if verbose {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	m, err := election.New(store, o)
	if err != nil {
		return err
	}
	if err := m.Check(ctx); errors.Is(err, backend.ErrDenied) { // any other error may pass by itself
		m.Close(ctx)
		return err
	}
	e, err := m.Join(name)
	if err != nil {
		return err
	}
	e.Watch(func(ev election.Event) { fmt.Println(ev.Time.Format("15:04:05.000"), ev) })

	err = e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		fmt.Printf("I lead in term %d\n", lead.Term)
		<-ctx.Done() // your work goes here: it ends with ctx, and its writes carry the term
		fmt.Printf("I stop: %v\n", context.Cause(ctx))
		return nil
	})
	if err != nil {
		return err
	}
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return m.Close(end)
}
