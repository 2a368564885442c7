package zookeeper

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-election/go-election/lab/testbed"
)

// With a user, every node belongs to that user alone, and others are denied without a secret being
// shown. The user is known again after a reconnect.
func TestNodesBelongToTheUserAlone(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	proxy := testbed.NewProxy(t, servers[0])
	o := Options{Servers: []string{proxy.Addr()}, Root: newRoot(t, servers) + "/deep", User: "app", Password: canary}
	a := start(t, "a", o)
	held := a.lead("jobs")
	admin := testbed.DialZooKeeper(t, servers)
	testbed.NoError(t, admin.AddAuth("digest", []byte("app:"+canary)))
	r := a.driver.root
	for _, path := range []string{ensemble.Parent(string(r)), string(r), string(r) + "/record", string(r) + "/session", string(r) + "/record/jobs", a.session()} {
		acl, _, err := admin.GetACL(path)
		if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || !strings.HasPrefix(acl[0].ID, "app:") || acl[0].Perms != zk.PermAll {
			t.Errorf("%s: %v, %v; want all rights for the user alone", path, acl, err)
		}
	}
	for _, other := range []Options{{Servers: servers, Root: o.Root}, {Servers: servers, Root: o.Root, User: "app", Password: "guessed"}} {
		_, err := start(t, "b", other).Looks("jobs")
		if backend.Class(err) != backend.ErrDenied || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "guessed") || !strings.Contains(err.Error(), "getAcl") {
			t.Errorf("another user reads: %v; want ErrDenied, what to do, and no secret", err)
		}
	}
	for range 3 {
		proxy.Cut(true)
		proxy.Cut(false)
		if got := a.renews(held); got.Outcome != backend.Granted {
			t.Fatalf("after a reconnect: %v", got.Outcome)
		}
	}
	if text := fmt.Sprintf("%v %+v %s", o, a.Backend, a.Location()); strings.Contains(text, canary) {
		t.Errorf("a secret is shown: %s", text)
	}
}

// A process without a right to make or write records learns that before it matters.
func TestPreflightFindsMissingRights(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	o := Options{Servers: servers, Root: newRoot(t, servers)}
	a := start(t, "a", o)
	bids := []backend.Bid{a.BidOver(backend.Lease{Election: "jobs"}), a.BidOver(backend.Lease{Election: "new"})}
	check := func(what string, denied ...bool) {
		t.Helper()
		testbed.Eventually(t, patience, what, func() error {
			for i, err := range a.Preflight(a.Context(), bids) {
				if (backend.Class(err) == backend.ErrDenied) != denied[i] || !denied[i] && err != nil {
					return fmt.Errorf("%s: %v", bids[i].Election, err)
				}
			}
			return nil
		})
	}
	check("nothing is there yet", false, false)
	a.lead("jobs")
	check("one election is led", false, false)
	admin := testbed.DialZooKeeper(t, servers)
	if _, err := admin.SetACL(o.Root+"/record/jobs", zk.WorldACL(zk.PermRead), -1); err != nil {
		t.Fatal(err)
	}
	check("the record may only be read", true, false)
	if _, err := admin.SetACL(o.Root+"/record", zk.WorldACL(zk.PermRead), -1); err != nil {
		t.Fatal(err)
	}
	check("no record may be made", true, true)
}

// A node that may not be read is not one that is missing: no process takes the election for free, or the list for
// empty, and the leader is not renewed.
func TestANodeThatMayNotBeReadIsNotMissing(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	o := Options{Servers: servers, Root: newRoot(t, servers)}
	a := start(t, "a", o)
	held := a.lead("jobs")
	testbed.NoError(t, a.Announce(t.Context(), backend.Member{Candidate: a.Me, TTL: ttl}))
	admin := testbed.DialZooKeeper(t, servers)
	for path, what := range map[string]string{
		"": "lead, list, members", "/meta": "lead", "/record": "lead, list", "/record/jobs": "read, list",
		"/session": "members", a.session()[len(o.Root):]: "read, list, members",
	} {
		if _, err := admin.SetACL(o.Root+path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1); err != nil {
			t.Fatal(err)
		}
		b := start(t, "b", o)
		ctx, errs := b.Context(), map[string]error{}
		_, errs["read"] = b.Looks("jobs")
		errs["lead"] = b.Bids(backend.Lease{Election: "never led"}).Err
		_, errs["list"] = b.List(ctx, "", 10)
		_, errs["members"] = b.Members(ctx, "", 10)
		for call, err := range errs {
			if strings.Contains(what, call) && backend.Class(err) != backend.ErrDenied {
				t.Errorf("%s without READ at the node %q: %v; want ErrDenied", call, path, err)
			}
		}
		if path == "" || path == "/record/jobs" {
			if got := a.Renews(held); backend.Class(got.Err) != backend.ErrDenied {
				t.Errorf("a renewal without READ at the node %q: %+v; want ErrDenied", path, got)
			}
		}
		if _, err := admin.SetACL(o.Root+path, zk.WorldACL(zk.PermAll), -1); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.renews(held); got.Outcome != backend.Granted {
		t.Errorf("with all rights again: %v, %v", got.Outcome, got.Err)
	}
}

func TestInspectDescribesServers(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	a := start(t, "a", Options{Servers: append([]string{"127.0.0.1:1"}, servers...), Root: newRoot(t, servers)})
	testbed.Eventually(t, patience, "a complete report", func() error {
		list, err := a.Inspect(t.Context(), time.Hour, time.Minute)
		if err != nil {
			return err
		}
		text := fmt.Sprint(list)
		for _, want := range []string{
			"WARNING server: 127.0.0.1:1 does not answer", ": ZooKeeper 3.",
			"a crash may cost as much in addition",
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("%q is missing in %s", want, text)
			}
		}
		return nil
	})
}

// The root was made by whoever had no user. Both are told what that means.
func TestInspectNamesRightsOfOthers(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	open := Options{Servers: servers, Root: newRoot(t, servers)}
	secured := open
	secured.User, secured.Password = "app", canary
	start(t, "a", open).read("jobs")
	for want, o := range map[string]Options{
		"rights: anyone who reaches the servers can write at " + open.Root:         open,
		"WARNING rights: anyone who reaches the servers can write at " + open.Root: secured,
	} {
		list, err := start(t, "b", o).Inspect(t.Context(), time.Second, time.Second/3)
		if text := fmt.Sprint(list); err != nil || !strings.Contains(text, want) {
			t.Errorf("want %q in %s, %v", want, text, err)
		}
	}
}

// A server whose certificate an unknown authority has signed is told nothing.
func TestTLSRefusesUnknownAuthorities(t *testing.T) {
	t.Parallel()
	server, other := testbed.StartZooKeeper(t, testbed.Options{TLS: true}), testbed.StartZooKeeper(t, testbed.Options{TLS: true})
	o := Options{Servers: []string{server.Addr()}, User: "app", Password: canary, TLS: server.TLSConfig()}
	start(t, "a", o).lead("jobs")
	o.TLS = other.TLSConfig()
	b := start(t, "b", o)
	testbed.Eventually(t, patience, "the certificate is refused", func() error {
		if _, err := b.Looks("jobs"); backend.Class(err) != backend.ErrDenied || strings.Contains(err.Error(), canary) {
			return fmt.Errorf("%w; want ErrDenied", err)
		}
		return nil
	})
}

// The client library refuses the first character, and the server the second.
func TestARootThatZooKeeperRefusesIsDenied(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"/\ue000", "/😀"} {
		b := start(t, "a", Options{Servers: testbed.SharedZooKeeper(t), Root: root})
		testbed.Eventually(t, patience, root+" is denied", func() error {
			if _, err := b.Looks("jobs"); backend.Class(err) != backend.ErrDenied {
				return fmt.Errorf("%w; want ErrDenied", err)
			}
			return nil
		})
	}
}

func TestInvalidOptionsAreNamed(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"no servers":         {},
		"host:port":          {Servers: []string{"a b"}},
		"zk1:2181:2888":      {Servers: []string{"zk1:2181:2888"}},
		"zk1:99999":          {Servers: []string{"zk1:99999"}},
		"zk1:client":         {Servers: []string{"zk1:client"}},
		"a path (chroot)":    {Servers: []string{"zk1:2181", "zk2:2181/app"}},
		"a user into user":   {Servers: []string{"u:" + canary + "@zk1:2181"}},
		"absolute":           {Servers: []string{"a"}, Root: "x"},
		"outside /zookeeper": {Servers: []string{"a"}, Root: "/zookeeper/x"},
		"or dots":            {Servers: []string{"a"}, Root: "/a/../b"},
		"colon":              {Servers: []string{"127.0.0.1"}, User: "u:v", Password: canary},
		"in the clear":       {Servers: []string{"zk.example"}, User: "u", Password: canary},
		"no user":            {Servers: []string{"a"}, Password: canary},
	} {
		_, err := Open(o)
		if backend.Class(err) != backend.ErrInvalid || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("want ErrInvalid about %q, got %v", want, err)
		}
	}
}

// Some thousands of leases cannot be renewed where a message may not be as large as ZooKeeper lets it be.
func TestInspectNamesALimitThatIsTooLow(t *testing.T) {
	t.Parallel()
	for want, properties := range map[string][]string{
		"only one is configured": nil, "jute.maxbuffer": {"-Djute.maxbuffer=500000"},
	} {
		server := testbed.StartZooKeeper(t, testbed.Options{Args: properties})
		a := start(t, "a", Options{Servers: []string{server.Addr()}, Root: "/lab"})
		list, err := a.Inspect(t.Context(), time.Second, time.Second/3)
		text := fmt.Sprint(list)
		warned := strings.Contains(text, "WARNING messages")
		if err != nil || !strings.Contains(text, want) || warned != (properties != nil) {
			t.Errorf("with %q: %q is missing, or too much: %v\n%s", properties, want, err, text)
		}
	}
}
