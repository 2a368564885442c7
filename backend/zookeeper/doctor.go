package zookeeper

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

var (
	_ backend.Inspector   = (*Backend)(nil)
	_ backend.Preflighter = (*Backend)(nil)
	_ backend.Marker      = (*Backend)(nil)
)

// Preflight implements [backend.Preflighter]. For each bid it sends the writes of a grant in a
// transaction that ends with a condition that is never met. ZooKeeper checks the rights to each write
// before that, and makes all or none.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs, d, o := make([]error, len(bids)), b.driver, origin{}
	err := b.Enter(bids[0].Candidate.Nonce)
	if err == nil {
		o, err = d.writeOrigin(ctx)
	}
	ensemble.InParallel(len(bids), func(i int) {
		if errs[i] = d.fail(err); err == nil {
			errs[i] = d.fail(d.preflight(ctx, o, bids[i].Election))
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("zookeeper: preflight %q: %w", bids[i].Election, errs[i])
		}
	})
	return errs
}

func (d *driver) preflight(ctx context.Context, o origin, election string) error {
	session := lease.Key{Kind: lease.Sessions, Name: "preflight-" + string(backend.NewNonce()[:8])}
	for range 5 {
		ops := []any{
			&zk.CheckVersionRequest{Path: string(d.root), Version: -1},
			&zk.CreateRequest{Path: d.root.path(session), Flags: zk.FlagEphemeral, Acl: d.ACL},
		}
		for _, k := range []lease.Key{{Kind: lease.Records, Name: election}, {Kind: lease.Metas}} {
			now, err := d.readItem(ctx, k, o)
			if err != nil {
				return err
			}
			if now.Version == "" {
				ops = append(ops, &zk.CreateRequest{Path: d.root.path(k), Acl: d.ACL})
			}
			ops = append(ops, &zk.SetDataRequest{Path: d.root.path(k), Version: -1})
		}
		ops = append(ops, &zk.CheckVersionRequest{Path: string(d.root), Version: -2}) // no node has it, and -1 would be any
		_, failed, err := d.multi(ctx, o, ops)
		switch {
		case err == nil:
			return fmt.Errorf("%w: the server has made a write that a condition forbids", backend.ErrDenied)
		case failed == len(ops)-1:
			return nil
		case !isNo(err):
			return err
		} // else another process was faster
	}
	return errBusy
}

// Inspect implements [backend.Inspector]. It asks each server what it is, whether all of them belong
// to one ensemble, which sessions they grant, and who has which rights at the root. It needs no
// right, but without one to read the root it cannot show the rights there.
func (b *Backend) Inspect(ctx context.Context, ttl, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	d := b.driver
	tooShort := func(statuses []ensemble.Status) (list []backend.Diagnostic) {
		for _, s := range statuses {
			if s.Serves() && s.Longest < 2*ttl && list == nil {
				list = append(list, clean.Diagnosticf(true, "session", "%s grants sessions of %v at most (maxSessionTimeout): with a TTL of %v a crash may cost as much in addition. Raise it to %v, or shorten the TTL", s.Server, s.Longest, ttl, 2*ttl))
			}
		}
		return list
	}
	list, err := d.Inspect(ctx, sessionLength, tooShort, string(d.root), func() ([]zk.ACL, error) {
		return ensemble.Read(ctx, d.session, func(c *zk.Conn) ([]zk.ACL, error) {
			acl, _, err := c.GetACL(string(d.root))
			return acl, err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("zookeeper: inspect: %w", d.fail(err))
	}
	return append(list, d.tryLargest(ctx)...), nil
}

// tryLargest sends as much as a member may send in one request, on a condition that is never met: servers do not tell their
// limit, and break the connection of whoever exceeds it.
func (d *driver) tryLargest(ctx context.Context) (list []backend.Diagnostic) {
	client, err := d.session.Ready(ctx)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	o, key := origin{session: client.SessionID()}, lease.Key{Kind: lease.Sessions, Name: "preflight-" + string(backend.NewNonce()[:8])}
	_, failed, err := d.multi(ctx, o, []any{
		&zk.CheckVersionRequest{Path: string(d.root), Version: -2}, // no node has it, and -1 would be any
		&zk.CreateRequest{Path: d.root.path(key), Flags: zk.FlagEphemeral, Acl: d.ACL, Data: make([]byte, maxBytes)},
	})
	if err != nil && failed < 0 {
		list = append(list, clean.Diagnosticf(true, "messages", "a request of %d bytes breaks the connection: raise jute.maxbuffer of the servers to its default, 1048575. A process that leads thousands of elections cannot renew all of them with less", maxBytes))
	}
	return list
}
