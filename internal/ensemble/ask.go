package ensemble

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// askLimit is how long one server may take to answer.
const askLimit = 5 * time.Second

// Inspect asks each server what it is, whether all of them belong to one ensemble, which sessions they grant
// up to longest, and who has which rights at the root. about says what the backend makes of the answers; getACL
// reads the rights. Without a right to read them, Inspect cannot show them.
func (a *Access) Inspect(ctx context.Context, longest time.Duration, about func([]Status) []backend.Diagnostic, root string, getACL func() ([]zk.ACL, error)) ([]backend.Diagnostic, error) {
	statuses := a.ask(ctx, longest)
	list := append(diagnose(statuses), about(statuses)...)
	if f, mixed := a.checkOneEnsemble(ctx, statuses); mixed {
		list = append(list, f)
	}
	f, err := a.rights(root, getACL)
	if err != nil {
		return nil, err
	}
	return append(list, f), nil
}

// ask asks each server what it is, with the one four-letter word that all servers answer (srvr), and
// how long a session it grants up to longest. This needs no right.
func (a *Access) ask(ctx context.Context, longest time.Duration) []Status {
	statuses := make([]Status, len(a.Servers))
	var all sync.WaitGroup
	for i, server := range a.Servers {
		all.Go(func() { statuses[i] = a.askServer(ctx, server, longest) })
	}
	all.Wait()
	return statuses
}

// A Status is what one server has answered.
type Status struct {
	Server        string
	Version, Mode string // as in srvr; empty if the server does not answer srvr
	Longest       time.Duration
	MaxConns      int // of one address (maxClientCnxns); 0: no limit, or the server does not answer conf
	Err           error
}

var (
	srvrVersion = regexp.MustCompile(`(?m)^Zookeeper version: (\d[\w.]{0,40})`)
	srvrMode    = regexp.MustCompile(`(?m)^Mode: ([\w-]{1,40})`)
	confConns   = regexp.MustCompile(`(?m)^maxClientCnxns=(\d{1,9})`)
)

// askServer asks one server what it is and how long sessions may be.
func (a *Access) askServer(ctx context.Context, server string, longest time.Duration) (s Status) {
	s.Server = server
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()

	text, err := a.fourLetterWords(ctx, server, "srvr", "conf")
	if err != nil {
		s.Err = err
		return s
	}
	for into, pattern := range map[*string]*regexp.Regexp{&s.Version: srvrVersion, &s.Mode: srvrMode} {
		if m := pattern.FindStringSubmatch(text); m != nil {
			*into = m[1]
		}
	}
	if m := confConns.FindStringSubmatch(text); m != nil {
		s.MaxConns, _ = strconv.Atoi(m[1])
	}

	session := a.sessionAt(longest, server)
	defer session.Close(true)
	if _, err := session.Ready(ctx); err != nil {
		s.Err = fmt.Errorf("it accepts no session: it has no majority, or is just starting: %w", err)
	}
	s.Longest = session.Connection().Length
	return s
}

// sessionAt returns a session at these servers alone.
func (a *Access) sessionAt(length time.Duration, servers ...string) *Session {
	there := *a
	there.Servers = servers
	return NewSession(&there, length)
}

// fourLetterWords sends a server some of its four-letter commands, and returns the answers. A server need not answer
// them, but it must be there.
func (a *Access) fourLetterWords(ctx context.Context, server string, words ...string) (text string, err error) {
	for _, word := range words {
		c, err := a.Dial(ctx, server, askLimit)
		if err != nil {
			return "", err
		}
		defer c.Close()
		if at, ok := ctx.Deadline(); ok {
			c.SetDeadline(at)
		}
		if _, err := io.WriteString(c, word); err == nil {
			answer, _ := io.ReadAll(io.LimitReader(c, 16<<10))
			text += string(answer) + "\n"
		}
	}
	return text, nil
}

// checkOneEnsemble checks that every server knows a session of the first one, as in an ensemble.
func (a *Access) checkOneEnsemble(ctx context.Context, statuses []Status) (f backend.Diagnostic, mixed bool) {
	first := ""
	for _, s := range statuses {
		switch {
		case !s.Serves():
		case first == "":
			first = s.Server
		case a.strangers(ctx, first, s):
			return clean.Diagnosticf(true, "servers", "%s and %s do not know each other's sessions: they belong to different ensembles, and each would elect its own leader. Correct the list of servers. With localSessionsEnabled this says nothing", first, s.Server), true
		}
	}
	return f, false
}

// strangers reports whether two servers are of different ensembles: a session that goes from one to the other has
// ended there.
func (a *Access) strangers(ctx context.Context, first string, second Status) bool {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	session := a.sessionAt(second.Longest, first, second.Server)
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
func diagnose(statuses []Status) (list []backend.Diagnostic) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	up, alone := 0, 0
	for _, s := range statuses {
		if s.Serves() {
			up++
			if s.Mode == "standalone" {
				alone++
			}
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
		role := map[string]string{"leader": "leads the ensemble", "follower": "follows", "observer": "observes, without a vote", "standalone": "is on its own"}[s.Mode]
		switch {
		case s.Mode == "read-only":
			add(true, "server", "%s is in read-only mode: it is cut off from the majority of its ensemble, and cannot serve a member", s.Server)
		case s.Err != nil:
			add(true, "server", "%s does not serve: %v", s.Server, s.Err)
		case s.Version == "" && s.Mode == "":
			add(false, "server", "%s serves, but does not answer srvr", s.Server)
		default:
			if 0 < s.MaxConns && s.MaxConns < fewConns {
				add(true, "connections", "%s: maxClientCnxns is %d: all processes on a machine share them; one with a guard needs %d", s.Server, s.MaxConns, fewConns)
			}
			add(false, "server", "%s: ZooKeeper %s, %s", s.Server, cmp.Or(s.Version, "of an unknown version"), cmp.Or(role, "in mode "+s.Mode))
		}
	}
	return list
}

// fewConns is how many connections a process and its guard may have at once, with one that replaces another.
const fewConns = 4

// Serves reports whether the server can serve a member.
func (s *Status) Serves() bool { return s.Err == nil }

// rights tells who may do what at the root, whose rights getACL reads.
func (a *Access) rights(root string, getACL func() ([]zk.ACL, error)) (f backend.Diagnostic, err error) {
	f.What = "rights"
	acl, err := getACL()
	switch {
	case errors.Is(err, zk.ErrNoNode):
		f.Text = fmt.Sprintf("%s does not exist yet: the first member creates it, if it has the right", root)
	case errors.Is(err, zk.ErrNoAuth):
		f.Text = fmt.Sprintf("those at %s cannot be read by %s: that needs read or admin there", root, a.user())
		f.Warning = true
	case err != nil:
		return f, err
	default:
		f.Text, f.Warning = a.explainACL(acl, root)
	}
	f.Text = clean.Text(f.Text, 1000, true)
	return f, nil
}

// explainACL tells who may do what, without hashes of passwords. It warns if that is less
// than a member needs, or more than a user wants others to have.
func (a *Access) explainACL(acl []zk.ACL, root string) (text string, warning bool) {
	const needed = zk.PermRead | zk.PermWrite | zk.PermCreate | zk.PermDelete
	sum := sha1.Sum([]byte(a.User + ":" + a.secret.Get())) // as the servers keep it
	me := a.User + ":" + base64.StdEncoding.EncodeToString(sum[:])
	var ours, all int32
	unknown := false // whether there are entries that only the servers can match with us
	var who []string
	for _, entry := range acl[:min(len(acl), 20)] {
		id := entry.ID
		switch {
		case entry.Scheme == "world":
			all |= entry.Perms
			ours |= entry.Perms
		case entry.Scheme == "digest":
			id, _, _ = strings.Cut(entry.ID, ":")
			if a.User != "" && entry.ID == me {
				ours |= entry.Perms
			}
		default:
			unknown = true
		}
		who = append(who, fmt.Sprintf("%s:%s:%s", entry.Scheme, id, letters(entry.Perms)))
	}
	text = fmt.Sprintf("at %s: %s", root, strings.Join(who, ", "))
	switch {
	case ours&needed != needed && !unknown:
		return text + fmt.Sprintf("; that gives this process %s, and a member needs %s", cmp.Or(letters(ours), "nothing"), letters(needed)), true
	case all&needed != 0 && a.User != "":
		return text + "; everyone who reaches the servers has rights there although a user is configured: the node was created without one", true
	case all&needed == needed:
		return text + "; anyone who reaches the servers can depose any leader", false
	}
	return text, false
}

// letters writes permissions as zkCli.sh does.
func letters(perms int32) (text string) {
	for _, letter := range "cdrwa" {
		if perms&(1<<strings.IndexRune(permissions, letter)) != 0 {
			text += string(letter)
		}
	}
	return text
}
