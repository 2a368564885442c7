package relational

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// A Backend keeps leases in a table, and does for an administrator what that needs.
type Backend struct {
	*lease.Backend
	driver *Driver
}

var (
	_ backend.Inspector   = (*Backend)(nil)
	_ backend.Located     = (*Backend)(nil)
	_ backend.Preflighter = (*Backend)(nil)
	_ backend.Preparer    = (*Backend)(nil)
)

// NewBackend returns a Backend. leases embeds d.
func NewBackend(leases lease.Driver, d *Driver) Backend { return Backend{lease.New(leases), d} }

// Location implements [backend.Located]. It is empty with a DB of the program, whose server is unknown.
func (b *Backend) Location() string { return b.driver.Location }

// Grant gives an account the rights of a member on the table. This Backend's account must be allowed to.
func (b *Backend) Grant(ctx context.Context, account string) error {
	d := b.driver
	t, err := d.Place(ctx)
	if err == nil {
		err = d.Dialect.Grant(ctx, t, account)
	}
	if err != nil {
		return fmt.Errorf("%s: grant rights to %.80q: %w", d.Name, account, d.Explain(ctx, err))
	}
	return nil
}

// Preflight implements [backend.Preflighter]. It sends the statements of a change, with nothing to change:
// the server checks the rights first.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	d, err := b.driver, b.Enter(bids[0].Candidate.Nonce)
	var v lease.View
	if err == nil {
		v, err = d.Read(ctx, nil)
	}
	if err == nil {
		_, err = d.Dialect.Change(ctx, &Batch{Epoch: v.Epoch, Rows: []Row{}, Verify: [][3]string{},
			Inserts: true, Updates: true, Deletes: true})
		err = d.Explain(ctx, err)
	}
	if err != nil {
		err = fmt.Errorf("%s: preflight: %w", d.Name, err)
	}
	return slices.Repeat([]error{err}, len(bids))
}

// Inspect implements [backend.Inspector]. It reads the settings of the server that matter for leases.
func (b *Backend) Inspect(ctx context.Context, ttl, _ time.Duration) (list []backend.Diagnostic, err error) {
	d, err := b.driver, b.Enter("")
	if err == nil {
		_, err = d.Place(ctx)
	}
	if err == nil {
		_, err = d.Dialect.ReadRows(ctx, [][2]string{}, false)
	}
	if err == nil {
		list, err = d.Dialect.Inspect(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: inspect: %w", d.Name, d.Explain(ctx, err))
	}
	list = append(list, clean.Diagnosticf(ttl > d.MaxTTL, "greatest TTL",
		"%v (max_ttl); after a failover every lease is observed for that long", d.MaxTTL))
	if ttl > d.MaxTTL {
		const refused = "every bid is refused: the TTL is %v, and max_ttl %v"
		list = append(list, clean.Diagnosticf(true, "TTL", refused, ttl, d.MaxTTL))
		list[len(list)-1].Fatal = true
	}
	return list, nil
}
