package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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
		_, failed, err := d.session.Multi(ctx, o.session, ops...)
		switch {
		case err == nil:
			return fmt.Errorf("%w: the server has made a write that a condition forbids", backend.ErrDenied)
		case failed == len(ops)-1:
			return nil
		case !ensemble.IsUnmet(err):
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
	servers := make([]server, len(d.Servers))
	ensemble.InParallel(len(servers), func(i int) { servers[i] = d.ask(ctx, d.Servers[i]) })
	list := append(diagnose(servers, ttl), d.mixed(ctx, servers)...)
	rights, err := d.rights(ctx)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: inspect: %w", d.fail(err))
	}
	return append(append(list, rights), d.tryLargest(ctx)...), nil
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
	key := lease.Key{Kind: lease.Sessions, Name: "preflight-" + string(backend.NewNonce()[:8])}
	_, failed, err := d.session.Multi(ctx, client.SessionID(),
		&zk.CheckVersionRequest{Path: string(d.root), Version: -2}, // no node has it, and -1 would be any
		&zk.CreateRequest{Path: d.root.path(key), Flags: zk.FlagEphemeral, Acl: d.ACL, Data: make([]byte, maxBytes)})
	if err != nil && failed < 0 && ctx.Err() == nil { // otherwise the line is slow
		list = append(list, clean.Diagnosticf(true, "messages", "a request of %d bytes breaks the connection: raise jute.maxbuffer of the servers to its default, 1048575. A process that leads thousands of elections cannot renew all of them with less", maxBytes))
	}
	return list
}

// rights tells who may do what at the root.
func (d *driver) rights(ctx context.Context) (f backend.Diagnostic, err error) {
	acl, err := ensemble.Read(ctx, d.session, func(c *zk.Conn) ([]zk.ACL, error) {
		acl, _, err := c.GetACL(string(d.root))
		return acl, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return clean.Diagnosticf(false, "rights", "%s does not exist yet: the first member creates it, if it has the right", d.root), nil
	case errors.Is(err, zk.ErrNoAuth):
		return clean.Diagnosticf(true, "rights", "those at %s cannot be read: that needs read or admin there", d.root), nil
	case err != nil:
		return f, err
	}

	open := func(entry zk.ACL) bool { return entry.Scheme == "world" && entry.Perms&zk.PermWrite != 0 }
	if slices.ContainsFunc(acl, open) {
		return clean.Diagnosticf(d.User != "", "rights",
			"anyone who reaches the servers can write at %s, and so depose any leader", d.root), nil
	}
	return clean.Diagnosticf(false, "rights", "only those whom the ACL of %s names may write there", d.root), nil
}

// A server is what one server has answered.
type server struct {
	address       string
	version, mode string        // as it says; empty if it does not answer srvr
	longest       time.Duration // the session that it grants, up to sessionLength
	err           error         // why it serves no member
}

// askLimit is how long one server may take to answer.
const askLimit = 5 * time.Second

// ask asks one server what it is and how long sessions may be. That needs no right.
func (d *driver) ask(ctx context.Context, address string) server {
	s := server{address: address}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	text, err := d.srvr(ctx, address)
	if err != nil {
		s.err = err
		return s
	}
	for line := range strings.Lines(text) {
		switch what, value, _ := strings.Cut(strings.TrimSpace(line), ": "); what {
		case "Zookeeper version":
			s.version, _, _ = strings.Cut(value, "-")
		case "Mode":
			s.mode = value
		}
	}

	session := d.sessionAt(sessionLength, address)
	defer session.Close(true)
	if _, err := session.Ready(ctx); err != nil {
		s.err = fmt.Errorf("it accepts no session: it has no majority, or is just starting: %w", err)
	}
	s.longest = session.Connection().Length
	return s
}

// sessionAt returns a session at these servers alone.
func (d *driver) sessionAt(length time.Duration, servers ...string) *ensemble.Session {
	there := *d.Access
	there.Servers = servers
	return ensemble.NewSession(&there, length)
}

// srvr sends the one four-letter command that all servers answer, unless they were told not to. A server must be there.
func (d *driver) srvr(ctx context.Context, address string) (text string, err error) {
	c, err := d.Dial(ctx, address, askLimit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(askLimit))
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", nil
	}
	answer, _ := io.ReadAll(io.LimitReader(c, 16<<10))
	return string(answer), nil
}

// mixed reports it if a server does not know the sessions of the first one that serves: all servers of an ensemble do.
func (d *driver) mixed(ctx context.Context, servers []server) []backend.Diagnostic {
	up := serving(servers)
	for _, s := range up[min(1, len(up)):] {
		if d.strangers(ctx, up[0].address, s) {
			return []backend.Diagnostic{clean.Diagnosticf(true, "servers",
				"%s and %s do not know each other's sessions: they belong to different ensembles, and each would elect"+
					" its own leader. Correct the list of servers. With localSessionsEnabled this says nothing",
				up[0].address, s.address)}
		}
	}
	return nil
}

// serving returns the servers that serve members.
func serving(servers []server) []server {
	return slices.DeleteFunc(slices.Clone(servers), func(s server) bool { return s.err != nil })
}

// strangers reports whether two servers are of different ensembles: a session that goes from one to the other has
// ended there.
func (d *driver) strangers(ctx context.Context, first string, second server) bool {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	session := d.sessionAt(second.longest, first, second.address)
	defer session.Close(true)
	var ids [2]int64
	for i := range ids {
		if _, err := session.Ready(ctx); err != nil {
			return false // one of them has just ended
		}
		ids[i] = session.Connection().ID
		session.Drop() // the library connects to the other one
	}
	return ids[0] != ids[1]
}

// diagnose explains what the servers have answered.
func diagnose(servers []server, ttl time.Duration) (list []backend.Diagnostic) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	up := serving(servers)
	switch {
	case len(up) < len(servers):
		add(true, "servers", "only %d of %d configured servers serve", len(up), len(servers))
	case len(up) == 1:
		add(true, "servers", "only one is configured: no member leads while it is down. If there are others, name them all")
	default:
		add(false, "servers", "all %d configured servers serve", len(up))
	}

	for _, s := range servers {
		switch {
		case s.err != nil:
			add(true, "server", "%s does not serve: %v", s.address, s.err)
		default: // both are unknown if it was told not to answer srvr
			add(false, "server", "%s: ZooKeeper %s, mode %s", s.address, cmp.Or(s.version, "?"), cmp.Or(s.mode, "?"))
		}
	}

	for _, s := range up {
		if s.longest < 2*ttl {
			add(true, "session", "%s grants sessions of %v at most (maxSessionTimeout): with a TTL of %v a crash may cost as much in addition. Raise it to %v, or shorten the TTL", s.address, s.longest, ttl, 2*ttl)
			break
		}
	}
	return list
}
