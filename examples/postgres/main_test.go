package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

const patience = 2 * time.Minute // bounds every wait, on a very busy machine

// Two programs with a pool each write under growing terms; one that is asked to end hands over.
func TestTheSecondProgramWritesWhenTheFirstEnds(t *testing.T) {
	d := testbed.SharedPostgres(t).Database(t)
	d.Exec(t, "CREATE TABLE invoice (id bigserial PRIMARY KEY, term numeric NOT NULL)", "GRANT ALL ON invoice, invoice_id_seq TO "+d.User)
	first, second := start(t, d, "a"), start(t, d, "b")
	wrote := func(n int) func() error {
		return func() error {
			if got := d.Value(t, "SELECT count(DISTINCT term) FROM invoice"); got != fmt.Sprint(n) {
				return fmt.Errorf("invoices of %s terms", got)
			}
			return nil
		}
	}

	testbed.Eventually(t, patience, "the leader writes", wrote(1))
	leader := d.Value(t, "SELECT value::json->>'id' FROM election_item WHERE kind = 'record'")
	if leader == "b" {
		first, second = second, first
	}
	if err := first.end(); err != nil {
		t.Errorf("the leader was asked to end: %v", err)
	}
	testbed.Eventually(t, patience, "the other writes in another term", wrote(2))
	if err := second.end(); err != nil {
		t.Errorf("the second was asked to end: %v", err)
	}
	if got := d.Value(t, "SELECT count(*) FROM (SELECT term < lag(term) OVER (ORDER BY id) AS less FROM invoice) AS x WHERE less"); got != "0" {
		t.Errorf("%s invoices have a smaller term than the one before", got)
	}
}

// A program runs in this process, with a pool of its own.
type program struct {
	cancel context.CancelFunc
	ended  chan error
}

func start(t *testing.T, d *testbed.PostgresDatabase, id string) *program {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), d.DSN(""))
	testbed.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{cancel, make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.ended <- run(ctx, pool, election.Options{ID: id, TTL: 15 * time.Second})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		pool.Close()
	})
	return p
}

func (p *program) end() error {
	p.cancel()
	return <-p.ended
}
