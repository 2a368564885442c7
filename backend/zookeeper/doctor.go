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

// Preflight implements [backend.Preflighter]. For each bid it sends the writes of a grant in a
// transaction that ends with a condition that is never met. ZooKeeper checks the rights to each write
// before that, and makes all or none.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs, d, o := make([]error, len(bids)), b.driver, origin{}
	common := b.Enter(bids[0].Candidate.Nonce)
	if common == nil {
		o, common = d.writeOrigin(ctx)
	}
	ensemble.InParallel(len(bids), func(i int) {
		err := common
		if err == nil {
			err = d.preflight(ctx, o, bids[i].Election)
		}
		if err != nil {
			errs[i] = fmt.Errorf("zookeeper: preflight %q: %w", bids[i].Election, d.fail(err))
		}
	})
	return errs
}

// never is a condition that is never met: no node has this version, and -1 would be any.
func (d *driver) never() *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: string(d.root), Version: -2}
}

func (d *driver) preflight(ctx context.Context, o origin, election string) error {
	puts := []lease.Put{
		{Over: lease.Item{Key: scratch()}, Value: &lease.Session{}},
		{Over: lease.Item{Key: lease.Key{Kind: lease.Records, Name: election}}, Value: &lease.Record{}},
		{Over: lease.Item{Key: lease.Key{Kind: lease.Metas}}, Value: &lease.Meta{}},
	}
	for range 5 {
		for i := range puts {
			now, err := d.readItem(ctx, puts[i].Over.Key, o)
			if err != nil {
				return err
			}
			puts[i].Over = now
		}
		ops := append(d.ops(&lease.Change{Put: puts}, o), d.never())
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

// scratch returns the key of a session that nobody has.
func scratch() lease.Key {
	return lease.Key{Kind: lease.Sessions, Name: "preflight-" + string(backend.NewNonce()[:8])}
}

// Inspect implements [backend.Inspector].
func (b *Backend) Inspect(ctx context.Context, ttl, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	d := b.driver
	list := make([]backend.Diagnostic, len(d.Servers))
	ensemble.InParallel(len(list), func(i int) { list[i] = d.ask(ctx, d.Servers[i]) })
	if len(list) == 1 {
		list = append(list, clean.Diagnosticf(true, "servers",
			"only one is configured: no member leads while it is down. If there are others, name them all"))
	}
	list = append(list, d.visit(ctx, ttl)...)

	rights, err := d.rights(ctx)
	if err != nil {
		return list, fmt.Errorf("zookeeper: inspect: %w", d.fail(err))
	}
	return slices.Concat(list, rights, d.tryLargest(ctx)), nil
}

// askLimit is how long servers may take to answer.
const askLimit = 5 * time.Second

// ask asks a server what it is. That needs no right.
func (d *driver) ask(ctx context.Context, address string) backend.Diagnostic {
	text, err := d.srvr(ctx, address)
	if err != nil {
		return clean.Diagnosticf(true, "server", "%s does not answer: %v", address, err)
	}
	after := func(title string) string {
		_, rest, _ := strings.Cut(text, title)
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	version, _, _ := strings.Cut(after("Zookeeper version: "), "-")
	if version == "" { // no majority, just starting, told not to answer, or another kind of server
		return clean.Diagnosticf(true, "server", "%s says only %.200q", address, text)
	}
	return clean.Diagnosticf(false, "server", "%s: ZooKeeper %s, mode %s", address, version, after("Mode: "))
}

// srvr sends the one four-letter command that all servers answer, unless they were told not to.
func (d *driver) srvr(ctx context.Context, address string) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	c, err := d.Dial(ctx, address, askLimit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(askLimit))
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(c, 16<<10))
	return string(answer), err
}

// visit goes from server to server with one session. All servers of an ensemble know it, and each shortens it
// to what it grants at most.
func (d *driver) visit(ctx context.Context, ttl time.Duration) (list []backend.Diagnostic) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	session := ensemble.NewSession(d.Access, sessionLength)
	defer session.Close(true)

	var first, last ensemble.Connection
	for range d.Servers {
		if _, err := session.Ready(ctx); err != nil {
			break
		}
		last = session.Connection()
		first = cmp.Or(first, last)
		session.Drop() // the library connects to the next one
	}
	if last.ID != first.ID {
		list = append(list, clean.Diagnosticf(true, "servers",
			"some do not know each other's sessions: they belong to different ensembles, and each would"+
				" elect its own leader. Correct the servers. With localSessionsEnabled this says nothing"))
	}
	if last.ID != 0 && last.Length < 2*ttl {
		list = append(list, clean.Diagnosticf(true, "session",
			"the servers grant sessions of %v at most (maxSessionTimeout): with a TTL of %v a crash may cost"+
				" as much in addition. Raise it to %v, or shorten the TTL", last.Length, ttl, 2*ttl))
	}
	return list
}

// rights tells who may do what at the root, if it is there.
func (d *driver) rights(ctx context.Context) ([]backend.Diagnostic, error) {
	acl, err := ensemble.Read(ctx, d.session, func(c *zk.Conn) ([]zk.ACL, error) {
		acl, _, err := c.GetACL(string(d.root))
		return acl, err
	})
	open := func(entry zk.ACL) bool { return entry.Scheme == "world" && entry.Perms&zk.PermWrite != 0 }
	f := clean.Diagnosticf(false, "rights", "only those whom the ACL of %s names may write there", d.root)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case slices.ContainsFunc(acl, open):
		f = clean.Diagnosticf(d.User != "", "rights",
			"anyone who reaches the servers can write at %s, and so depose any leader", d.root)
	}
	return []backend.Diagnostic{f}, err
}

// tryLargest sends as much as a member may send in one request, on a condition that is never met: servers do
// not tell their limit, and break the connection of whoever exceeds it.
func (d *driver) tryLargest(ctx context.Context) (list []backend.Diagnostic) {
	client, err := d.session.Ready(ctx)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	large := &zk.CreateRequest{Path: d.root.path(scratch()), Acl: d.ACL, Data: make([]byte, maxBytes)}
	_, failed, err := d.session.Multi(ctx, client.SessionID(), d.never(), large)
	if err != nil && failed < 0 && ctx.Err() == nil { // otherwise the line is slow
		list = append(list, clean.Diagnosticf(true, "messages",
			"a request of %d bytes breaks the connection, and a process cannot renew thousands of elections:"+
				" raise jute.maxbuffer of the servers to its default, 1048575", maxBytes))
	}
	return list
}
