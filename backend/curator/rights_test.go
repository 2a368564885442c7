package curator

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/lab/testbed"
)

const canary = "hunter2-canary"

// With a user, every node belongs to that user alone. Others are denied and told what is
// missing, and no secret is shown.
func TestNodesBelongToTheUserAlone(t *testing.T) {
	t.Parallel()
	o := shared(t)
	o.ZooKeeper.User, o.ZooKeeper.Password = "app", canary
	a := newClient(t, "a", o)
	held := a.win(t, "jobs")
	if err := a.Announce(t.Context(), backend.Member{Candidate: a.me, TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	a.keep(t, held)

	for what, change := range map[string]func(*Options){
		"nobody":           func(o *Options) { o.ZooKeeper.User, o.ZooKeeper.Password = "", "" },
		"a wrong password": func(o *Options) { o.ZooKeeper.Password = canary + "x" },
		"another user":     func(o *Options) { o.ZooKeeper.User = "other" },
	} {
		p := o
		change(&p)
		b := newClient(t, "b", p)
		_, err := b.List(t.Context(), "", 10)
		_, err2 := b.try(backend.Lease{Election: "jobs"})
		for _, err := range []error{err, err2} {
			if backend.Class(err) != backend.ErrDenied {
				t.Errorf("%s: want ErrDenied, got %v", what, err)
			} else if strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), o.ZooKeeper.Root) {
				t.Errorf("%s: want an error that names the path and no password, got %v", what, err)
			}
		}
	}

	admin := dial(t, o.ZooKeeper.Servers)
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
	walk(o.ZooKeeper.Root)
	if s := fmt.Sprintf("%v %+v", a.lock.fail("x", errors.New("y")), a.Guarantees()); strings.Contains(s, canary) {
		t.Error("the password is shown")
	}
}

// Losing the rights to the lock of one election affects that election only. If they are given back, it is led again.
func TestRightsRevokedAtOneLockLeaveTheOthers(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Node} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			o := shared(t)
			o.Layout, o.ZooKeeper.User, o.ZooKeeper.Password = layout, "app", canary
			a, b := newClient(t, "a", o), newClient(t, "b", o)
			jobs, mail := a.win(t, "jobs"), a.win(t, "mail")
			path := a.lock.layout.lockPath("jobs")
			admin := dial(t, o.ZooKeeper.Servers)
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
				t.Fatalf("mail, whose nodes are unchanged: want it renewed, got %+v, %v", answers, err)
			}
			// Checking a node in a queue needs no right to the queue.
			if told := answers[0]; layout == Node && (told.Outcome != backend.Unknown || backend.Class(told.Err) != backend.ErrDenied) {
				t.Errorf("a renewal of jobs: want no outcome and ErrDenied, got %+v", told)
			}
			changed, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}, {Election: "mail"}})
			if err != nil || len(changed) != 2 || changed[1].Holder != a.me {
				t.Fatalf("want b to read both elections, got %+v, %v", changed, err)
			}
			if got, err := b.try(changed[0]); backend.Class(err) != backend.ErrDenied {
				t.Errorf("a bid for jobs: want ErrDenied, got %+v, %v", got, err)
			}

			allow(zk.PermAll)
			answers, err = a.renew(jobs, mail)
			if err != nil || answers[0].Outcome != backend.Granted || answers[1].Outcome != backend.Granted {
				t.Errorf("with the rights given back: want both renewed, got %+v, %v", answers, err)
			}
		})
	}
}

func TestTLSRefusesUnknownAuthorities(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{TLS: true})
	o := Options{ZooKeeper: zookeeper.Options{Servers: []string{server.Secure()}, Root: "/tls", User: "app", Password: canary}, Tick: tick, Session: wideSession}
	o.ZooKeeper.TLS = server.TLSConfig()
	a := newClient(t, "a", o)
	held := a.win(t, "jobs")
	a.keep(t, held)

	o.ZooKeeper.TLS = &tls.Config{MinVersion: tls.VersionTLS12} // which trusts other authorities
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
	configured, err := backend.Open(Name, func(into any) error {
		return json.Unmarshal(fmt.Appendf(nil, `{"servers": [%q], "ca_file": %q, "user": "app", "password": %q, "root": "/tls", "tick": %d}`, server.Secure(), server.CAFile(), canary, tick), into)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { configured.Close() })
	if l := (&client{Backend: configured.(*Backend)}).observeOne(t, "jobs"); l.Term != held.Term {
		t.Errorf("as configured: want to read term %d, got %+v", held.Term, l)
	}
}
