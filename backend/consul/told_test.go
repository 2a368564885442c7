package consul

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// Transactions of servers are limited to half a MiB, and JSON makes much of little.
func TestManyLeasesAreTakenOverByACandidateWithMuchMetadata(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	n := l.node(t, "n")
	n.me.Metadata = strings.Repeat("<", backend.MaxMetadata)
	var bids []backend.Bid
	for i := range 2 * grantChunk {
		over := n.look(fmt.Sprint(i))
		bids = append(bids, backend.Bid{Election: over.Election, Candidate: n.me, TTL: n.ttl, Renew: n.ttl / 4, Expected: over})
	}
	for _, round := range []string{"first grants", "grants anew"} {
		ctx, cancel := n.ctx()
		answers, err := n.Acquire(ctx, bids)
		cancel()
		for i, a := range answers {
			if err != nil || a.Outcome != backend.Granted {
				t.Fatalf("%s: %v, %v, %v; want granted", round, a.Outcome, a.Err, err)
			}
			bids[i].Expected = a.Lease
		}
	}
}

// A bid without an answer is followed by one that is refused. The first may come yet.
func TestABidThatIsRefusedDoesNotSettleAnEarlierOne(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, late := l.node(t, "a"), l.node(t, "late")
	other := late.win("other")
	a.release(backend.Released, a.win("x"))
	seen := late.look("x")
	entries, err := late.read(t.Context(), []string{"x"}, true)
	fatal(t, err)
	o := &offer{entry: entries[0], next: entries[0].last + 1, bid: backend.Bid{Election: "x", Candidate: late.me, TTL: late.ttl, Expected: seen}}
	o.draw(late.session.get(), time.Now())
	late.heartbeats.may([]*offer{o})
	_, err = l.root.Session().Destroy(a.session.get(), nil) // the keys are as they were
	fatal(t, err)
	stale := seen
	stale.Heartbeat++
	late.want("a bid over something else", late.bid(stale), backend.Refused)
	late.release(backend.Released, backend.Lease{Election: "x"})
	if ok, _, _, err := late.client.KV().Txn(late.grantOps(o, late.session.get()), nil); ok || err != nil {
		t.Errorf("a bid that arrives after the release of whatever it is: %v, %v; want it refused", ok, err)
	}
	late.want("a renewal of what else it holds", late.renew(other)[0], backend.Granted)
}

func TestASessionHangsOnTheChecksThatAreNamedAndNoOthers(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{SessionTTLMin: time.Second})
	l := newLab(t, agent)
	fatal(t, l.root.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", Check: &api.AgentServiceCheck{CheckID: "web", TTL: "10m", Status: "passing"}}))
	fatal(t, l.root.Agent().CheckRegister(&api.AgentCheckRegistration{ID: "disk", Name: "disk", AgentServiceCheck: api.AgentServiceCheck{TTL: "10m", Status: "passing"}}))
	for want, change := range map[string]func(*Options){
		"[] []":           func(*Options) {},
		"[] [{web }]":     func(o *Options) { o.ServiceChecks = []string{"web"} },
		"[disk] []":       func(o *Options) { o.Checks = []string{"disk"} },
		"[disk] [{web }]": func(o *Options) { o.Checks, o.ServiceChecks = []string{"disk"}, []string{"web"} },
	} {
		n := l.node(t, "n", change)
		var id string
		testbed.Eventually(t, time.Minute, "the checks are known to the servers", func() (err error) {
			ctx, cancel := n.ctx()
			defer cancel()
			id, err = n.Backend.open(ctx, n.me, n.ttl)
			return err
		})
		s, _, err := l.root.Session().Info(id, nil)
		fatal(t, err)
		if got := fmt.Sprint(s.NodeChecks, s.ServiceChecks); got != want {
			t.Errorf("the session hangs on %s, want %s", got, want)
		}
	}
	n := l.node(t, "n", func(o *Options) { o.Checks = []string{"dsik"} })
	ctx, cancel := n.ctx()
	defer cancel()
	if _, err := n.Acquire(ctx, []backend.Bid{{Election: "x", Candidate: n.me, TTL: n.ttl, Expected: n.look("x")}}); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("a check that there is not: %v; want ErrDenied", err)
	}
}

// That a token lacks a right is said in an answer to a transaction, too.
func TestATokensFileIsReadAgainWhateverSaysThatItLacksARight(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{ACL: true})
	l := newLab(t, agent)
	l.node(t, "strong", func(o *Options) { o.Token = agent.AdminToken() }).win("x")
	weak := token(t, l.root, fmt.Sprintf("key_prefix %q { policy = \"write\" }\nsession_prefix \"\" { policy = \"write\" }", l.prefix+"/members/")).SecretID
	for what, text := range map[string]string{"a weak token": weak, "two lines": "a\nb", "nothing": ""} {
		file := filepath.Join(t.TempDir(), "token")
		fatal(t, os.WriteFile(file, []byte(weak), 0o600))
		n := l.node(t, "n", func(o *Options) { o.TokenFile = file })
		look := func() error {
			ctx, cancel := n.ctx()
			defer cancel()
			_, err := n.Observe(ctx, []backend.Lease{{Election: "x"}})
			return err
		}
		fatal(t, os.WriteFile(file, []byte(text), 0o600))
		for range 2 {
			if err := look(); !errors.Is(err, backend.ErrDenied) {
				t.Errorf("%s in the file: %v; want ErrDenied", what, err)
			}
		}
		fatal(t, os.WriteFile(file, []byte(agent.AdminToken()), 0o600))
		look()
		if err := look(); err != nil {
			t.Errorf("%s in the file, and then the right one: %v", what, err)
		}
	}
}

// Names of elections stand in the servers' messages, and tokens may be words of ours.
func TestWordsOfMessagesDoNotChangeWhatTheySay(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{ACL: true})
	l := newLab(t, agent)
	reader := token(t, l.root, fmt.Sprintf("key_prefix %q { policy = \"read\" }\nsession_prefix \"\" { policy = \"write\" }\nkey_prefix %q { policy = \"write\" }", l.prefix, l.prefix+"/heartbeats/")).SecretID
	n := l.node(t, "n", func(o *Options) { o.Token = reader })
	for _, name := range []string{"x", "search-index", "existing"} {
		ctx, cancel := n.ctx()
		answers, err := n.Acquire(ctx, []backend.Bid{{Election: name, Candidate: n.me, TTL: n.ttl, Expected: n.look(name)}})
		cancel()
		if err == nil {
			err = answers[0].Err
		}
		if !errors.Is(err, backend.ErrDenied) {
			t.Errorf("no right to write, election %q: %v; want ErrDenied", name, err)
		}
	}
	open := newLab(t, testbed.SharedConsul(t))
	for _, word := range []string{"consul", "election", "over"} {
		n := open.node(t, "n", func(o *Options) { o.Token = word })
		held := n.win(word)
		if err := n.Request(t.Context(), []backend.Request{{Election: held.Election, Term: 1, Kind: backend.Depose}}); !errors.Is(err, backend.ErrStale) {
			t.Errorf("a request for a term that is over, with the token %q: %v; want ErrStale", word, err)
		}
	}
}
