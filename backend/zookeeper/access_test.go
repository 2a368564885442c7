package zookeeper

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

const canary = "hunter2-canary"

// With a user, every node that is made is that user's alone; others are denied,
// told what is missing, and no secret is shown.
func TestWithAUserEveryNodeIsItsOwn(t *testing.T) {
	t.Parallel()
	o := shared(t)
	o.User, o.Password = "app", canary
	a := newClient(t, "a", o)
	held := a.win(t, "jobs")
	if err := a.Announce(t.Context(), backend.Member{Candidate: a.me, TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	a.keep(t, held)

	for what, change := range map[string]func(*Options){
		"nobody":           func(o *Options) { o.User, o.Password = "", "" },
		"a wrong password": func(o *Options) { o.Password = canary + "x" },
		"another user":     func(o *Options) { o.User = "other" },
	} {
		p := o
		change(&p)
		b := newClient(t, "b", p)
		_, err := b.List(t.Context(), "", 10)
		_, err2 := b.try(backend.Lease{Election: "jobs"})
		for _, err := range []error{err, err2} {
			if backend.Class(err) != backend.ErrDenied {
				t.Errorf("%s: want ErrDenied, got %v", what, err)
			} else if strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), o.Root) {
				t.Errorf("%s: want an error that names the path and no password, got %v", what, err)
			}
		}
	}

	admin := dial(t, o.Servers)
	var walk func(path string)
	walk = func(path string) {
		acl, _, err := admin.GetACL(path)
		for _, entry := range acl {
			if err == nil && (entry.Scheme != "digest" || !strings.HasPrefix(entry.ID, "app:")) {
				t.Errorf("%s is open to %s:%s", path, entry.Scheme, entry.ID)
			}
		}
		if err := admin.AddAuth("digest", []byte("app:"+canary)); err != nil {
			t.Fatal(err)
		}
		nodes, _, err := admin.Children(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			walk(path + "/" + n)
		}
	}
	walk(o.Root)
	if s := fmt.Sprintf("%v %+v", a.fail("x", errors.New("y")), a.Guarantees()); strings.Contains(s, canary) {
		t.Error("the password is shown")
	}
}

// Rights that are taken away during a leadership end it at its deadline, with an error
// that says so; nothing is won meanwhile.
func TestRightsThatAreRevokedDuringALeadershipAreSaid(t *testing.T) {
	t.Parallel()
	o := shared(t)
	o.User, o.Password = "app", canary
	a := newClient(t, "a", o)
	held := a.win(t, "jobs")
	a.keep(t, held)
	admin := dial(t, o.Servers)
	if err := admin.AddAuth("digest", []byte("app:"+canary)); err != nil {
		t.Fatal(err)
	}
	id, _ := a.session.present()
	path := a.layout.sessionOf(sessionName(id))
	if _, err := admin.SetACL(path, zk.DigestACL(zk.PermRead|zk.PermAdmin, "app", canary), -1); err != nil {
		t.Fatal(err)
	}
	answers, err := a.renew(held)
	if backend.Class(err) != backend.ErrDenied || answers[0].Outcome == backend.Granted {
		t.Fatalf("a renewal without the right to write: want ErrDenied and no outcome, got %+v, %v", answers, err)
	}
	if _, err := admin.SetACL(path, zk.DigestACL(zk.PermAll, "app", canary), -1); err != nil {
		t.Fatal(err)
	}
	a.keep(t, held)
}

// Rights that are taken away at the nodes of one election are that election's affair: all
// others of the Backend are renewed and seen as before. When that is all there is to see,
// it is an error.
func TestRightsThatAreRevokedAtOneElectionLeaveTheOthers(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Node} {
		for _, at := range []string{"record", "lock"} {
			t.Run(string(layout)+", at its "+at, func(t *testing.T) {
				t.Parallel()
				o := shared(t)
				o.Layout, o.User, o.Password = layout, "app", canary
				a, b := newClient(t, "a", o), newClient(t, "b", o)
				jobs, mail := a.win(t, "jobs"), a.win(t, "mail")
				seen := []backend.Lease{b.look(t, "jobs"), b.look(t, "mail")}
				path := a.layout.recordOf("jobs")
				if at == "lock" {
					path = a.layout.lock("jobs")
				}
				admin := dial(t, o.Servers)
				if err := admin.AddAuth("digest", []byte("app:"+canary)); err != nil {
					t.Fatal(err)
				}
				allow := func(perms int32) {
					t.Helper()
					if _, err := admin.SetACL(path, zk.DigestACL(perms|zk.PermAdmin, "app", canary), -1); err != nil {
						t.Fatal(err)
					}
				}

				allow(0)
				answers, err := a.renew(jobs, mail)
				if err != nil || answers[1].Outcome != backend.Granted {
					t.Fatalf("mail, whose nodes nobody has touched: want it renewed, got %+v, %v", answers, err)
				}
				// To check a node of a queue no right at the queue is needed.
				if told := answers[0]; (at == "record" || layout == Node) && (told.Outcome != backend.Unknown || backend.Class(told.Err) != backend.ErrDenied) {
					t.Errorf("a renewal of jobs: want no outcome and ErrDenied, got %+v", told)
				}
				b.session.cache.forget(data, path) // rights are read of when something else has happened
				b.session.cache.forget(children, path)
				ctx := t.Context()
				changed, err := b.Observe(ctx, seen)
				if err != nil || len(changed) != 2 || changed[1].Holder != a.me {
					t.Fatalf("want b to see that mail was renewed, got %+v, %v", changed, err)
				}
				if got, err := b.try(changed[0]); backend.Class(err) != backend.ErrDenied {
					t.Errorf("a bid for jobs: want ErrDenied, got %+v, %v", got, err)
				}
				if _, err := b.Observe(ctx, seen[:1]); backend.Class(err) != backend.ErrDenied {
					t.Errorf("nothing but jobs to be seen: want ErrDenied, got %v", err)
				}

				over := changed[0]
				allow(zk.PermAll)
				if got, err := b.try(over); err != nil || got.Outcome != backend.Refused || got.Holder != a.me {
					t.Fatalf("a bid over what was shown meanwhile: want it refused by a's lease, got %+v, %v", got, err)
				}
				if l := b.look(t, "jobs"); l.Holder != a.me {
					t.Errorf("with the rights given back: want b to see a, got %+v", l)
				}
				answers, err = a.renew(jobs, mail)
				if err != nil || answers[0].Outcome != backend.Granted || answers[1].Outcome != backend.Granted {
					t.Errorf("with the rights given back: want both renewed, got %+v, %v", answers, err)
				}
			})
		}
	}
}

func TestTLSAndWhoIsNotTrusted(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{TLS: true})
	o := Options{Servers: []string{server.Secure()}, Root: "/tls", Tick: tick, MaxSession: longest, User: "app", Password: canary}
	o.TLS = server.TLSConfig()
	a := newClient(t, "a", o)
	held := a.win(t, "jobs")
	a.keep(t, held)

	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12} // which trusts others
	b := newClient(t, "b", o)
	testbed.Eventually(t, patience, "a server of an unknown authority to be denied", func() error {
		_, err := b.try(backend.Lease{Election: "jobs"})
		if backend.Class(err) != backend.ErrDenied {
			return fmt.Errorf("got %w", err)
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("the password is shown: %v", err)
		}
		return nil
	})
	c := config{Servers: o.Servers, Root: "/tls", CAFile: server.CAFile(), Tick: tick, User: "app", Password: canary}
	p, err := c.options()
	if err != nil {
		t.Fatal(err)
	}
	if l := newClient(t, "c", p).look(t, "jobs"); l.Term != held.Term {
		t.Errorf("as configured: want to read term %d, got %+v", held.Term, l)
	}
}

func TestImpossibleOptionsAreErrorsThatNameThem(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"no servers":         {},
		"host:port":          {Servers: []string{"a b"}},
		"layout":             {Servers: []string{"a"}, Layout: "queue"},
		"same for all":       {Servers: []string{"a"}, Path: "/app/latch"},
		"absolute":           {Servers: []string{"a"}, Root: "x"},
		"ZooKeeper itself":   {Servers: []string{"a"}, Root: "/zookeeper/x"},
		"stray child":        {Servers: []string{"a"}, Paths: map[string]string{"x": "/election/record"}},
		"same path":          {Servers: []string{"a"}, Paths: map[string]string{"x": "/p", "y": "/p"}},
		"within \"/p\" of":   {Servers: []string{"a"}, Paths: map[string]string{"x": "/p", "y": "/p/q/r"}},
		"or within it":       {Servers: []string{"a"}, Path: "/app/{election}", Paths: map[string]string{"x": "/app/y/z"}},
		"neither may be":     {Servers: []string{"a"}, Path: "/app/lock-{election}/x", Paths: map[string]string{"x": "/app/lock-y/x"}},
		"lock at \"/a/{":     {Servers: []string{"a"}, Layout: Node, Path: "/a/{election}", Last: "/a/{election}/last"},
		"ZooKeeper refuses":  {Servers: []string{"a"}, Root: "/😀"},
		"a number from 1":    {Servers: []string{"zk1:client"}},
		"to 65535":           {Servers: []string{"zk1:99999"}},
		"tick":               {Servers: []string{"a"}, Tick: time.Hour},
		"longest":            {Servers: []string{"a"}, MaxSession: time.Second},
		"1h0m0s at most":     {Servers: []string{"a"}, MaxSession: time.Hour + 1},
		"/app/record\" is":   {Servers: []string{"a"}, Root: "/app", Layout: Node, Path: "/app/{election}"},
		"/record/queue\" is": {Servers: []string{"a"}, Root: "/app", Path: "/app/{election}/queue"},
		"in the clear":       {Servers: []string{"zk.example"}, User: "u", Password: canary},
		"colon":              {Servers: []string{"127.0.0.1"}, User: "u:v", Password: canary},
		"no user":            {Servers: []string{"a"}, Password: canary},
		"address":            {Servers: []string{"a"}, Data: "name"},
	} {
		_, err := Open(t.Context(), o)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("want ErrInvalid about %q, got %v", want, err)
		}
	}
	beside := Options{Servers: []string{"[::1]:2181"}, Path: "/app/lock-{election}/x", Paths: map[string]string{"x": "/app/lock-y", "y": "/app/y/x", "z": "/app/lock-/x"}}
	if _, err := Open(t.Context(), beside); err != nil {
		t.Errorf("paths beside each other: %v", err)
	}
}

func TestNamesOfNodes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "A", "a/b", "..", ".", "...", "%", "%61", "é", "AccountService:1.0.0", " ", "a\\b"} {
		part := escape(name)
		if err := checkPath("/x/" + part); err != nil {
			t.Errorf("%q becomes %q: %v", name, part, err)
		}
		if back, ok := unescape(part); !ok || back != name {
			t.Errorf("%q becomes %q and then %q", name, part, back)
		}
	}
	l := layout{base: "latch-"}
	// By the number after the last base name, whatever comes before; a stray
	// child is compared whole, as Curator does.
	for _, c := range [][]string{
		{"_c_ffffffff-2815-4a0d-b821-61692c4a6290-latch-0000000001", "_c_00000000-2815-4a0d-b821-61692c4a6290-latch-0000000002"},
		{"x-latch-latch-0000000001", "latch-0000000002"},
		{"0-stray-metadata", "latch-0000000001"},
	} {
		if first := l.first([]string{c[1], c[0]}); first != c[0] {
			t.Errorf("first of %q: got %q", c, first)
		}
	}
}

// Whatever is in the store, nothing panics and nobody is taken for the leader.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"election":"jobs","term":1,"heartbeat":"3","holder":{"id":"a","nonce":"n","ttl":"1s","renew":"1s","node":"../x","session":"y"}}`))
	f.Add([]byte(`{"election":"jobs","term":1,"heartbeat":"3","history":[{}]}`))
	f.Add([]byte("\xff{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parseHeartbeats(data).find(1)
		r, err := parseRecord(data, "jobs")
		if err != nil {
			return
		}
		if r.Holder != nil && (strings.Contains(r.Holder.Node, "/") || strings.Contains(r.Holder.Session, "/")) {
			t.Errorf("a path from the store: %+v", r.Holder)
		}
		r.finish(backend.Failed, time.Now(), 0)
		r.encode()
	})
}

// Whatever a server says, the library is not given what it would not survive, and
// what a server says in truth passes.
func FuzzReply(f *testing.F) {
	stat := make([]byte, 68)
	multi := slices.Concat([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, '/'}, []byte{0, 0, 0, 5, 0, 0, 0, 0, 0}, stat, []byte{255, 255, 255, 255, 1, 255, 255, 255, 255})
	for op, body := range map[int32][]byte{
		opGetData:     slices.Concat([]byte{0, 0, 0, 1, 'x'}, stat),
		opGetChildren: slices.Concat([]byte{0, 0, 0, 1, 0, 0, 0, 1, 'x'}, stat),
		opMulti:       multi, opSync: {0, 0, 0, 1, '/'}, opSetData: stat,
	} {
		if p := (parser{body}); !p.answer(op) || len(p.rest) != 0 {
			f.Errorf("an answer to a request of kind %d is refused, or %d bytes of it are left", op, len(p.rest))
		}
		f.Add(op, body)
	}
	f.Add(int32(opGetChildren), []byte{0x7f, 255, 255, 255})
	f.Add(int32(opGetData), []byte{0x7f, 255, 255, 255, 1})
	f.Add(int32(opSync), []byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		for n := range len(body) { // no part of what is whole is whole
			whole, part := parser{body}, parser{body[:n]}
			if whole.answer(op) && len(whole.rest) == 0 && len(body) > 0 && part.answer(op) {
				t.Fatalf("%d of the %d bytes of an answer of kind %d pass", n, len(body), op)
			}
		}
	})
}
