package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// Preflight implements [backend.Preflighter]. It sends the writes of grants and of the session, on condition
// of an index that no key has. Consul checks the rights of all operations before it tries any.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) (errs []error) {
	d, closed := b.driver, b.Enter(bids[0].Candidate.Nonce)
	for part := range slices.Chunk(bids, maxOps/3) {
		var ops api.KVTxnOps
		for _, bid := range part {
			record := lease.Key{Kind: lease.Records, Name: bid.Election}
			session := lease.Key{Kind: lease.Sessions, Name: string(bid.Candidate.Nonce)}
			for _, k := range []lease.Key{record, session, {Kind: lease.Metas}} {
				ops = append(ops, d.tried(k, nil))
			}
		}
		answer, err := &api.KVTxnResponse{}, closed
		if err == nil {
			_, answer, err = d.txn(ctx, ops)
		}
		for i, bid := range part {
			mine := err
			if err == nil {
				for _, e := range answer.Errors {
					if strings.Contains(e.What, "ermission denied") && e.OpIndex/3 == i {
						mine = errors.New(e.What)
					}
				}
			}
			if mine != nil {
				mine = fmt.Errorf("consul: preflight %q: %w", bid.Election, d.fail(mine))
			}
			errs = append(errs, mine)
		}
	}
	return errs
}

// tried returns a write on condition of an index that no key has.
func (d *driver) tried(k lease.Key, value []byte) *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVCAS, Key: d.key(k), Index: math.MaxInt64, Value: value}
}

// Inspect implements [backend.Inspector]. It asks the agent, and tries to send as much as a member may send
// in one request: not every token may read the limits.
func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	d := b.driver
	list, err := d.servers(ctx)
	if err != nil {
		return nil, fmt.Errorf("consul: inspect: %w", d.fail(err))
	}
	largest := d.tried(lease.Key{Kind: lease.Sessions, Name: "preflight"}, make([]byte, maxBytes))
	_, _, err = d.txn(ctx, api.KVTxnOps{largest})
	if err = d.fail(err); errors.Is(err, backend.ErrDenied) {
		list = append(list, clean.Diagnosticf(true, "messages",
			"thousands of elections of a process cannot be renewed: %d bytes fail: %v", maxBytes, err))
		err = nil
	}
	return list, err
}

// servers reports whether the servers have a leader, and how many of them can fail.
func (d *driver) servers(ctx context.Context) ([]backend.Diagnostic, error) {
	query := (&api.QueryOptions{}).WithContext(ctx)
	leader, err := d.client.Status().LeaderWithQueryOptions(query)
	peers, err2 := d.client.Status().PeersWithQueryOptions(query)
	if err = cmp.Or(err, err2); err != nil {
		return nil, err
	}
	servers := len(peers)
	warning, text := servers%2 == 0, fmt.Sprintf("; %s leads, and %d of them can fail", leader, (servers-1)/2)
	switch {
	case leader == "":
		warning, text = true, ", and none leads: there is no majority, so nothing can be written"
	case servers == 1:
		text = ", " + leader + ": nobody can lead while it is down, and all watch anew if its disk is lost"
	}
	return []backend.Diagnostic{clean.Diagnosticf(warning, "servers", "%d%s", servers, text)}, nil
}
