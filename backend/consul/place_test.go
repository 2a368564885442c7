package consul

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A token loses the right to read one record and one session. They are not missing: whatever would have to show them is
// denied. What the process leads itself goes on.
func TestAKeyThatMayNotBeReadIsNotMissing(t *testing.T) {
	t.Parallel()
	agent := testbed.StartConsul(t, testbed.Options{Args: []string{testbed.ConsulACL}})
	l := newLab(t, agent)
	strong := l.node(t, "strong", func(o *Options) { o.Token = testbed.ConsulToken })
	held := strong.Leads("hidden")
	bound := token(t, l.root, strong.driver.policy("write"))
	n := l.node(t, "n", func(o *Options) { o.Token = bound.SecretID })
	own := n.Leads("own")
	if seen := n.Sees("hidden"); seen.Term != held.Term {
		t.Fatalf("with all rights: %+v", seen)
	}

	policy, _, err := l.root.ACL().PolicyRead(bound.Policies[0].ID, nil)
	testbed.NoError(t, err)
	policy.Rules += fmt.Sprintf(" key %q { policy = \"deny\" } key %q { policy = \"deny\" }", l.record("hidden"), l.session(strong.Me.Nonce))
	_, _, err = l.root.ACL().PolicyUpdate(policy, nil)
	testbed.NoError(t, err)
	ctx := n.Context()
	many := make([]backend.Lease, maxByKey+1)
	for i := range many {
		many[i].Election = fmt.Sprint("e", i)
	}
	for what, call := range map[string]func() error{
		"List":                 func() error { _, err := n.List(ctx, "", 10); return err },
		"Members":              func() error { _, err := n.Members(ctx, "", 10); return err },
		"Observe":              func() error { _, err := n.Observe(ctx, []backend.Lease{{Election: "hidden"}}); return err },
		"Observe of many":      func() error { _, err := n.Observe(ctx, many); return err },
		"Observe of a new one": func() error { _, err := n.Observe(ctx, many[:1]); return err },
		"Listen":               func() error { return n.driver.Listen(ctx, 0, nil, func([]lease.Item, uint64) bool { return false }) },
	} {
		testbed.Eventually(t, 20*time.Second, what+" is denied", func() error {
			if err := call(); !errors.Is(err, backend.ErrDenied) {
				return fmt.Errorf("%v; want ErrDenied", err)
			}
			return nil
		})
	}
	n.Keeps(own)
}

// An agent without namespaces, partitions or that datacenter refuses them, whoever names them. Nobody leads in another
// place than was named.
func TestAPlaceThatIsNamedIsNotIgnored(t *testing.T) {
	l := newLab(t, testbed.SharedConsul(t))
	client := func(c api.Config) *api.Client {
		c.Address = l.agent.URL()
		made, err := api.NewClient(&c)
		testbed.NoError(t, err)
		return made
	}
	header, plain := client(api.Config{}), client(api.Config{})
	header.AddHeader("X-Consul-Namespace", "team")
	t.Setenv("CONSUL_NAMESPACE", "team")
	environment := client(api.Config{})
	for what, o := range map[string]Options{
		"a namespace":                             {Namespace: "team"},
		"a partition":                             {Partition: "team"},
		"a datacenter":                            {Datacenter: "other"},
		"a namespace beside a client":             {Client: plain, Namespace: "team"},
		"a partition beside a client":             {Client: plain, Partition: "team"},
		"a datacenter beside a client":            {Client: plain, Datacenter: "other"},
		"a namespace in the client":               {Client: client(api.Config{Namespace: "team"})},
		"a namespace in the client's environment": {Client: environment},
		"a namespace in a header of the client":   {Client: header},
	} {
		n := l.node(t, "n", func(all *Options) {
			o.Address, o.Prefix = all.Address, all.Prefix
			*all = o
		})
		if seen, err := n.Observe(t.Context(), []backend.Lease{{Election: what}}); !errors.Is(err, backend.ErrDenied) {
			t.Errorf("%s: %+v, %v; want ErrDenied", what, seen, err)
		}
	}
}

// TestConformanceWhereAnotherConsulAnswers runs the cases in which an address leads some processes to another Consul for a
// while, which is empty, in use, or has a copy of the keys.
func TestConformanceWhereAnotherConsulAnswers(t *testing.T) {
	here, other := testbed.StartConsul(t, testbed.Options{}), testbed.StartConsul(t, testbed.Options{})
	for range 5000 { // to who has read the first one, a copy with greater indexes looks like a later state of it
		_, err := admins(t, other).KV().Put(&api.KVPair{Key: "test/age"}, nil)
		testbed.NoError(t, err)
	}
	h := harness(func(t testing.TB) conformance.Store {
		prefix := "test/" + string(backend.NewNonce()[:16])
		from, to := admins(t, here), admins(t, other)
		t.Cleanup(func() { wipe(from, prefix); wipe(to, prefix) })
		connect := func(t testing.TB, addr string) backend.Backend {
			return open(t, Options{Address: addr, Prefix: prefix})
		}
		return drivertest.Elsewhere(here, other, connect, func() error { return copyKeys(from, to, prefix) })
	})
	h.Only = drivertest.IsElsewhere
	conformance.Run(t, h)
}

// copyKeys makes the keys below a prefix in another Consul.
func copyKeys(from, to *api.Client, prefix string) error {
	all, _, err := from.KV().List(prefix, nil)
	for _, p := range all {
		if err == nil {
			_, err = to.KV().Put(p, nil)
		}
	}
	return err
}

// The servers' messages contain names of elections, and a token may be a word of our own messages.
func TestNamesInMessagesDoNotChangeTheClass(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.Options{Args: []string{testbed.ConsulACL}})
	l := newLab(t, agent)
	reader := token(t, l.root, fmt.Sprintf("key_prefix %q { policy = \"read\" }\nkey_prefix %q { policy = \"write\" }", l.prefix, l.prefix+"/session/")).SecretID
	n := l.node(t, "n", func(o *Options) { o.Token = reader })
	for _, name := range []string{"x", "search-index", "existing"} {
		if err := n.Bids(n.Sees(name)).Err; !errors.Is(err, backend.ErrDenied) {
			t.Errorf("no right to write, election %q: %v; want ErrDenied", name, err)
		}
	}
	open := newLab(t, testbed.SharedConsul(t))
	for _, word := range []string{"consul", "election", "over"} {
		n := open.node(t, "n", func(o *Options) { o.Token = word })
		held := n.Leads(word)
		if err := n.Request(t.Context(), []backend.Request{{Election: held.Election, Term: 1, Kind: backend.Depose}}); !errors.Is(err, backend.ErrStale) {
			t.Errorf("a request for a former term, with the token %q: %v; want ErrStale", word, err)
		}
	}
}

// The kernel says that this process may not open the agent's socket.
func TestASocketThatMayNotBeOpenedIsDenied(t *testing.T) {
	a := open(t, Options{}).driver
	if err := a.fail(&os.PathError{Op: "dial", Path: "/x", Err: syscall.EACCES}); !errors.Is(err, backend.ErrDenied) || strings.Contains(err.Error(), "the token") {
		t.Errorf("%v; want ErrDenied and no word of the token", err)
	}
}

// Another Consul with a copy of the keys answers, and the request that asks up to where it was written fails. The copy is
// not believed all the same.
func TestACopyIsNoticedThoughItsIndexIsNotTold(t *testing.T) {
	here, other := testbed.StartConsul(t, testbed.Options{}), testbed.StartConsul(t, testbed.Options{})
	l, ahead := newLab(t, here), admins(t, other)
	for range 1000 {
		_, err := ahead.KV().Put(&api.KVPair{Key: "test/age"}, nil)
		testbed.NoError(t, err)
	}
	proxy := here.Proxy(t)
	n := l.node(t, "n", func(o *Options) { o.Address = proxy.Addr() })
	held := n.Leads("held")
	testbed.NoError(t, copyKeys(l.root, ahead, l.prefix))
	proxy.SetTarget(other.Addr())
	proxy.Reset()

	answered := n.wire.next
	n.wire.next = lost{answered, "separator="}
	n.Observe(n.Context(), []backend.Lease{held})
	n.wire.next = answered
	if a := n.Renews(held); a.Outcome != backend.Refused {
		t.Errorf("a renewal by the copy is %v, %v; want refused", a.Outcome, a.Err)
	}
	if seen := n.Sees("held"); seen.ObserveFor < n.TTL {
		t.Errorf("the copy is watched for %v, want %v", seen.ObserveFor, n.TTL)
	}
}

// A lost is a RoundTripper that answers no request with a text in its query.
type lost struct {
	http.RoundTripper
	text string
}

func (l lost) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.RawQuery, l.text) {
		return nil, errors.New("the answer is lost")
	}
	return l.RoundTripper.RoundTrip(r)
}
