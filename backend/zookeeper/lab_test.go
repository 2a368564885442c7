package zookeeper

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

const (
	patience = 2 * time.Minute
	ttl      = 10 * time.Second // no test waits for it
	canary   = "open-sesame"    // a password
)

// A process is a Backend with its candidate, as one process would have it.
type process struct {
	*Backend
	*drivertest.Candidate
}

func start(t testing.TB, id string, o Options) *process {
	t.Helper()
	b := testbed.Open(t, Open, o)
	c := drivertest.NewCandidate(t, b, id, ttl)
	c.Limit = ttl / 4 // as of a manager
	return &process{b, c}
}

// read tries until it succeeds.
func (p *process) read(election string) (l backend.Lease) {
	p.T.Helper()
	testbed.Eventually(p.T, patience, p.Me.ID+" can read", func() (err error) {
		l, err = p.Looks(election)
		return err
	})
	return l
}

// lead bids for an election until it is granted.
func (p *process) lead(election string) (l backend.Lease) {
	p.T.Helper()
	testbed.Eventually(p.T, patience, p.Me.ID+" leads", func() error {
		now, err := p.Looks(election)
		if err != nil {
			return err
		}
		a := p.Bids(now)
		if l = a.Lease; a.Outcome != backend.Granted {
			return fmt.Errorf("a bid is %v: %v", a.Outcome, a.Err)
		}
		return nil
	})
	return l
}

// renews renews a lease until there is an outcome.
func (p *process) renews(l backend.Lease) (a backend.Answer) {
	p.T.Helper()
	testbed.Eventually(p.T, patience, p.Me.ID+" has an outcome of a renewal", func() error {
		a = p.Renews(l)
		return a.Err
	})
	return a
}

// session returns the path of the process's node.
func (p *process) session() string {
	return p.driver.root.path(lease.Key{Kind: lease.Sessions, Name: string(p.Me.Nonce)})
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
