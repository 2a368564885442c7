package zookeeper

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/ensemble"
)

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
	s.version, s.mode = find(srvrVersion, text), find(srvrMode, text)

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

var (
	srvrVersion = regexp.MustCompile(`(?m)^Zookeeper version: (\d[\w.]{0,40})`)
	srvrMode    = regexp.MustCompile(`(?m)^Mode: ([\w-]{1,40})`)
)

// find returns what a pattern finds in the answer to srvr, or "".
func find(pattern *regexp.Regexp, text string) string {
	if m := pattern.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// mixed reports it if a server does not know the sessions of the first one that serves: all servers of an ensemble do.
func (d *driver) mixed(ctx context.Context, servers []server) (f backend.Diagnostic, is bool) {
	first := ""
	for _, s := range servers {
		switch {
		case s.err != nil:
		case first == "":
			first = s.address
		case d.strangers(ctx, first, s):
			return clean.Diagnosticf(true, "servers", "%s and %s do not know each other's sessions: they belong to different ensembles, and each would elect its own leader. Correct the list of servers. With localSessionsEnabled this says nothing", first, s.address), true
		}
	}
	return f, false
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
	var up []server
	for _, s := range servers {
		if s.err == nil {
			up = append(up, s)
		}
	}
	switch {
	case len(up) < len(servers):
		add(true, "servers", "only %d of %d configured servers serve", len(up), len(servers))
	case len(up) == 1 && up[0].mode == "standalone":
		add(true, "servers", "one standalone server, without replication: no member leads while it is down, and all observe anew if its disk is lost")
	case len(up) == 1:
		add(true, "servers", "only one is configured: if it is down, this process cannot find the others. Name them all")
	default:
		add(false, "servers", "all %d configured servers serve", len(up))
	}

	role := map[string]string{"leader": "leads the ensemble", "follower": "follows", "observer": "observes, without a vote", "standalone": "is on its own"}
	for _, s := range servers {
		switch {
		case s.mode == "read-only":
			add(true, "server", "%s is in read-only mode: it is cut off from the majority of its ensemble, and cannot serve a member", s.address)
		case s.err != nil:
			add(true, "server", "%s does not serve: %v", s.address, s.err)
		case s.version == "" && s.mode == "":
			add(false, "server", "%s serves, but does not answer srvr", s.address)
		default:
			add(false, "server", "%s: ZooKeeper %s, %s", s.address, cmp.Or(s.version, "of an unknown version"), cmp.Or(role[s.mode], "in mode "+s.mode))
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
