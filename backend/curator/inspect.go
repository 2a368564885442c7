package curator

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/ensemble"
)

var _ backend.Inspector = (*Backend)(nil)

// Inspect asks each server what it is, with the one four-letter word that all servers
// answer (srvr), and which session lengths it grants, by opening sessions; whether all
// servers know each other's sessions; and who has which rights at Root. It closes its
// sessions at once and creates no nodes. Inspect needs no right, but it cannot show the
// rights at Root to a user that may not read them.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	if err := b.admit(""); err != nil {
		return nil, err
	}
	about := func(statuses []ensemble.Status) []backend.Diagnostic {
		return diagnostics(b.options, statuses, ttl, renew)
	}
	list, err := b.access.Inspect(ctx, b.options.MaxSession, about, b.options.Root, func() (acl []zk.ACL, err error) {
		err = b.withSession(ctx, func(s *session) error {
			acl, err = ensemble.Read(ctx, s.Session, func(c *zk.Conn) ([]zk.ACL, error) {
				acl, _, err := c.GetACL(b.options.Root)
				return acl, err
			})
			return err
		})
		return acl, err
	})
	if err != nil {
		return nil, b.wrap("inspect", err)
	}
	return list, nil
}

// diagnostics explains which sessions the servers grant.
func diagnostics(o Options, statuses []ensemble.Status, ttl, renew time.Duration) (list []backend.Diagnostic) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	var longest, shortest time.Duration
	least, greatest := "", "" // the servers that set these limits
	for _, s := range statuses {
		if !s.Serves() {
			continue
		}
		if least == "" || s.Longest < longest {
			least, longest = s.Server, s.Longest
		}
		if s.Shortest > shortest {
			greatest, shortest = s.Server, s.Shortest
		}
	}
	if least == "" {
		return list
	}
	need := sessionLength(ttl, renew)
	renew = renew.Round(time.Millisecond) // for people
	refused := need > min(o.MaxSession, longest)
	switch {
	case need > o.MaxSession: // checked when the configuration is read, too
		add(true, "session", "a TTL of %v, renewed every %v, needs a session of %v, and max_session is %v: every bid is refused", ttl, renew, need, o.MaxSession)
	case need > longest:
		add(true, "session", "a TTL of %v, renewed every %v, needs a session of %v, and %s grants %v at most: every bid is refused. Shorten the TTL to %v, or raise the servers' maxSessionTimeout to %d",
			ttl, renew, need, least, longest, (longest * 3 / 5).Truncate(100*time.Millisecond), (need + time.Millisecond - 1).Milliseconds())
	case longest < o.MaxSession:
		add(true, "session", "%s grants sessions of %v at most, and max_session is %v here: set it to the servers' maxSessionTimeout, so that a TTL that is too long is found at once. A TTL of %v needs %v, which is granted", least, longest, o.MaxSession, ttl, need)
	case need < shortest:
		add(o.Layout == Node, "session", "a TTL of %v needs a session of %v, and %s grants no less than %v (minSessionTimeout): members that do not observe leases themselves wait for that long after a crash", ttl, need, greatest, shortest)
	default:
		add(false, "session", "the servers grant from %v to %v and more; a TTL of %v, renewed every %v, needs %v", shortest, longest, ttl, renew, need)
	}
	list[len(list)-1].Fatal = refused
	if shortest/2 > o.Tick {
		add(true, "tick", "%s grants no session of less than %v, by default twice its tickTime, and tick is %v here: set it to the servers' tickTime, since the clock margin depends on it. If they have a minSessionTimeout of their own, this says nothing", greatest, shortest, o.Tick)
	}
	return list
}
