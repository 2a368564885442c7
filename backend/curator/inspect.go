package curator

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

var _ backend.Inspector = (*Backend)(nil)

// inspectLimit is how long one server may take to answer.
const inspectLimit = 5 * time.Second

// Inspect asks each server what it is, with the one four-letter word that all servers
// answer (srvr), and which session lengths it grants, by opening sessions; whether all
// servers know each other's sessions; and who has which rights at Root. It closes its
// sessions at once and creates no nodes. Inspect needs no right, but it cannot show the
// rights at Root to a user that may not read them.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) (list []backend.Diagnostic, err error) {
	if err := b.admit(""); err != nil {
		return nil, err
	}
	statuses := make([]serverStatus, len(b.options.Servers))
	var all sync.WaitGroup
	for i, server := range b.options.Servers {
		all.Go(func() { statuses[i] = b.queryServer(ctx, server) })
	}
	all.Wait()
	list = diagnostics(b.options, statuses, ttl, renew)
	if f, mixed := b.checkOneEnsemble(ctx, statuses); mixed {
		list = append(list, f)
	}
	f, err := b.rights(ctx)
	if err != nil {
		return nil, b.wrap("inspect", err)
	}
	return append(list, f), nil
}

// A serverStatus is what one server has answered.
type serverStatus struct {
	server            string
	version, mode     string // as in srvr; empty if the server does not answer srvr
	shortest, longest time.Duration
	readOnly          bool // the server is cut off from the majority of its ensemble
	err               error
}

var (
	srvrVersion = regexp.MustCompile(`(?m)^Zookeeper version: (\d[\w.]{0,40})`)
	srvrMode    = regexp.MustCompile(`(?m)^Mode: ([\w-]{1,40})`)
)

// queryServer asks one server what it is and how long sessions may be.
func (b *Backend) queryServer(ctx context.Context, server string) (s serverStatus) {
	s.server = server
	ctx, cancel := context.WithTimeout(ctx, inspectLimit)
	defer cancel()
	var long, short *rawSession
	if long, s.err = b.openRawSession(ctx, server, b.options.MaxSession, nil); s.err != nil {
		return s
	}
	defer long.end()
	if short, s.err = b.openRawSession(ctx, server, time.Millisecond, nil); s.err != nil {
		return s
	}
	defer short.end()
	s.longest, s.shortest, s.readOnly = long.length, short.length, long.readOnly
	// It is enough that the server serves; srvr is optional.
	if text, err := b.fourLetterWord(ctx, server, "srvr"); err == nil {
		for _, x := range []struct {
			into    *string
			pattern *regexp.Regexp
		}{{&s.version, srvrVersion}, {&s.mode, srvrMode}} {
			if m := x.pattern.FindStringSubmatch(text); m != nil {
				*x.into = m[1]
			}
		}
	}
	return s
}

// checkOneEnsemble checks that every server knows a session of another one, as in an
// ensemble.
func (b *Backend) checkOneEnsemble(ctx context.Context, statuses []serverStatus) (f backend.Diagnostic, mixed bool) {
	var first *rawSession
	creator := ""
	for _, s := range statuses {
		if s.err != nil || s.readOnly {
			continue
		}
		g, err := func() (*rawSession, error) {
			ctx, cancel := context.WithTimeout(ctx, inspectLimit)
			defer cancel()
			return b.openRawSession(ctx, s.server, b.options.MaxSession, first)
		}()
		switch {
		case errors.Is(err, errUnknownSession):
			f.Warning, f.What = true, "servers"
			f.Text = clean.Text(fmt.Sprintf("%s does not know a session that %s has created: they belong to different ensembles, and each would elect its own leader. Correct the list of servers. With localSessionsEnabled this says nothing", s.server, creator), 1000, true)
			mixed = true
		case err == nil:
			if first != nil {
				first.Close() // the other server has taken the session over
			}
			first, creator = g, s.server
		}
	}
	if first != nil {
		first.end()
	}
	return f, mixed
}

// diagnostics explains the servers' answers.
func diagnostics(o Options, statuses []serverStatus, ttl, renew time.Duration) (list []backend.Diagnostic) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	up, alone := 0, 0
	var longest, shortest time.Duration
	least, greatest := "", "" // the servers that set these limits
	for _, s := range statuses {
		if s.err != nil || s.readOnly {
			continue
		}
		up++
		if s.mode == "standalone" {
			alone++
		}
		if least == "" || s.longest < longest {
			least, longest = s.server, s.longest
		}
		if s.shortest > shortest {
			greatest, shortest = s.server, s.shortest
		}
	}
	switch {
	case up < len(statuses):
		add(true, "servers", "only %d of %d configured servers serve", up, len(statuses))
	case alone > 0 && up == 1:
		add(true, "servers", "one standalone server, without replication: no member leads while it is down, and all observe anew if its disk is lost")
	case up == 1:
		add(true, "servers", "only one is configured: if it is down, this process cannot find the others. Name them all")
	default:
		add(false, "servers", "all %d configured servers serve", up)
	}
	for _, s := range statuses {
		role := map[string]string{"leader": "leads the ensemble", "follower": "follows", "observer": "observes, without a vote", "standalone": "is on its own"}[s.mode]
		switch {
		case s.err != nil:
			add(true, "server", "%s does not serve: %v", s.server, s.err)
		case s.readOnly:
			add(true, "server", "%s is in read-only mode: it is cut off from the majority of its ensemble, and cannot serve a member", s.server)
		case s.version == "" && s.mode == "":
			add(false, "server", "%s serves, but does not answer srvr", s.server)
		default:
			add(false, "server", "%s: ZooKeeper %s, %s", s.server, cmp.Or(s.version, "of an unknown version"), cmp.Or(role, "in mode "+s.mode))
		}
	}
	if up == 0 {
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

// rights tells who may do what at Root.
func (b *Backend) rights(ctx context.Context) (f backend.Diagnostic, err error) {
	f.What = "rights"
	var acl []zk.ACL
	err = b.withSession(ctx, func(s *session) error {
		acl, err = read(ctx, s, func(c *zk.Conn) ([]zk.ACL, error) {
			acl, _, err := c.GetACL(b.options.Root)
			return acl, err
		})
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		f.Text = fmt.Sprintf("%s does not exist yet: the first member creates it, if it has the right", b.options.Root)
		return f, nil
	case errors.Is(err, zk.ErrNoAuth):
		f.Text = fmt.Sprintf("those at %s cannot be read by %s: that needs read or admin there", b.options.Root, b.userName())
		f.Warning = true
		return f, nil
	case err != nil:
		return f, err
	}
	f.Text, f.Warning = explainACL(acl, b.options)
	f.Text = clean.Text(f.Text, 1000, true)
	return f, nil
}

// explainACL tells who may do what, without hashes of passwords. It warns if that is less
// than a member needs, or more than a user wants others to have.
func explainACL(acl []zk.ACL, o Options) (text string, warning bool) {
	const needed = zk.PermRead | zk.PermWrite | zk.PermCreate | zk.PermDelete
	sum := sha1.Sum([]byte(o.User + ":" + o.Password)) // as the servers keep it
	me := o.User + ":" + base64.StdEncoding.EncodeToString(sum[:])
	var ours, all int32
	unknown := false // whether there are entries that only the servers can match with us
	var who []string
	for _, a := range acl[:min(len(acl), 20)] {
		id := a.ID
		switch {
		case a.Scheme == "world":
			all |= a.Perms
			ours |= a.Perms
		case a.Scheme == "digest":
			id, _, _ = strings.Cut(a.ID, ":")
			if o.User != "" && a.ID == me {
				ours |= a.Perms
			}
		default:
			unknown = true
		}
		who = append(who, fmt.Sprintf("%s:%s:%s", a.Scheme, id, permissionLetters(a.Perms)))
	}
	text = fmt.Sprintf("at %s: %s", o.Root, strings.Join(who, ", "))
	switch {
	case ours&needed != needed && !unknown:
		return text + fmt.Sprintf("; that gives this process %s, and a member needs %s", cmp.Or(permissionLetters(ours), "nothing"), permissionLetters(needed)), true
	case all&needed != 0 && o.User != "":
		return text + "; everyone who reaches the servers has rights there although a user is configured: the node was created without one", true
	case all&needed == needed:
		return text + "; anyone who reaches the servers can depose any leader", false
	}
	return text, false
}

// permissionLetters writes permissions as zkCli.sh does.
func permissionLetters(perms int32) (text string) {
	for _, p := range []struct {
		letter string
		bit    int32
	}{{"c", zk.PermCreate}, {"d", zk.PermDelete}, {"r", zk.PermRead}, {"w", zk.PermWrite}, {"a", zk.PermAdmin}} {
		if perms&p.bit != 0 {
			text += p.letter
		}
	}
	return text
}
