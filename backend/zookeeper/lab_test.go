package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

const (
	patience = 2 * time.Minute
	ttl      = 10 * time.Second // no test waits for it
	canary   = "open-sesame"    // a password
)

// A node is a Backend with its candidate, as one process would have it.
type process struct {
	*Backend
	t  testing.TB
	me backend.Candidate
}

func start(t testing.TB, id string, o Options) *process {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return &process{b, t, backend.Candidate{ID: id, Nonce: backend.NewNonce()}}
}

// call limits a call as a manager does.
func (p *process) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.t.Context(), ttl/4)
}

// try reads one lease as if for the first time.
func (p *process) try(election string) (l backend.Lease, err error) {
	ctx, cancel := p.call()
	defer cancel()
	changed, err := p.Observe(ctx, []backend.Lease{{Election: election}})
	if err == nil && len(changed) != 1 {
		err = fmt.Errorf("%d leases", len(changed))
	}
	if err == nil {
		l = changed[0]
	}
	return l, err
}

// read tries until it succeeds.
func (p *process) read(election string) (l backend.Lease) {
	p.t.Helper()
	testbed.Eventually(p.t, patience, p.me.ID+" can read", func() (err error) {
		l, err = p.try(election)
		return err
	})
	return l
}

func (p *process) bid(over backend.Lease) (backend.Answer, error) {
	ctx, cancel := p.call()
	defer cancel()
	answers, err := p.Acquire(ctx, []backend.Bid{{Election: over.Election, Candidate: p.me, TTL: ttl, Renew: ttl / 3, Expected: over}})
	if len(answers) == 1 && err == nil {
		return answers[0], answers[0].Err
	}
	return backend.Answer{}, err
}

// lead bids for an election until it is granted.
func (p *process) lead(election string) (l backend.Lease) {
	p.t.Helper()
	testbed.Eventually(p.t, patience, p.me.ID+" leads", func() error {
		now, err := p.try(election)
		if err != nil {
			return err
		}
		a, err := p.bid(now)
		if l = a.Lease; err == nil && a.Outcome != backend.Granted {
			err = errors.New(a.Outcome.String())
		}
		return err
	})
	return l
}

// renews renews a lease until there is an outcome.
func (p *process) renews(l backend.Lease) (a backend.Answer) {
	p.t.Helper()
	testbed.Eventually(p.t, patience, p.me.ID+" has an outcome of a renewal", func() error {
		ctx, cancel := p.call()
		defer cancel()
		answers, err := p.Renew(ctx, []backend.Held{l.Held()})
		if err != nil {
			return err
		}
		a = answers[0]
		return a.Err
	})
	return a
}

// session returns the path of the process's node.
func (p *process) session() string {
	return p.driver.root.path(lease.Key{Kind: lease.Sessions, Name: string(p.me.Nonce)})
}

// exists reports whether there is a node.
func exists(t testing.TB, admin *zk.Conn, path string) (there bool) {
	t.Helper()
	testbed.Eventually(t, patience, "an answer", func() (err error) {
		there, _, err = admin.Exists(path)
		return err
	})
	return there
}
