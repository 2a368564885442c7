package consul

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// token makes a token with a policy. The result has its secret and its accessor.
func token(t *testing.T, root *api.Client, rules string) *api.ACLToken {
	t.Helper()
	policy, _, err := root.ACL().PolicyCreate(&api.ACLPolicy{Name: "p" + string(backend.NewNonce()[:8]), Rules: rules}, nil)
	testbed.NoError(t, err)
	made, _, err := root.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	testbed.NoError(t, err)
	return made
}

// callAll calls every method once and returns the errors.
func callAll(n *node) map[string]error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lease := backend.Lease{Election: "verbs", Holder: n.Me, Term: 1, TTL: labTTL, Renew: labTTL / 4}
	errs := make(map[string]error)
	_, errs["Acquire"] = n.Acquire(ctx, []backend.Bid{{Election: "verbs", Candidate: n.Me, TTL: labTTL, Expected: lease}})
	_, errs["Renew"] = n.Renew(ctx, []backend.Held{lease.Held()})
	errs["Release"] = n.Release(ctx, []backend.Held{lease.Held()})
	_, errs["Observe"] = n.Observe(ctx, []backend.Lease{lease})
	errs["Listen"] = n.Listen(ctx, []backend.Lease{lease})
	errs["Request"] = n.Request(ctx, []backend.Request{{Election: "verbs", Term: 1, Kind: backend.Depose}})
	_, errs["List"] = n.List(ctx, "", 10)
	errs["Announce"] = n.Announce(ctx, backend.Member{Candidate: n.Me, TTL: labTTL})
	_, errs["Members"] = n.Members(ctx, "", 10)
	return errs
}

// The documented policy is enough for every call, and the error of a denied call names it.
func TestTheDocumentedPolicyIsEnough(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.Options{Args: []string{testbed.ConsulACL}})
	l := newLab(t, agent)
	n := l.node(t, "n")
	rules := n.driver.policy("write")
	secret := token(t, l.root, rules)
	n = l.node(t, "n", func(o *Options) { o.Token = secret.SecretID })
	held := n.Leads("x")
	n.Keeps(held)
	for verb, err := range callAll(n) {
		if err != nil && !errors.Is(err, backend.ErrStale) {
			t.Errorf("%s with the documented policy: %v", verb, err)
		}
	}
	if text, err := os.ReadFile("doc.go"); err != nil || !strings.Contains(string(text), strings.ReplaceAll(rules, l.prefix, "election")) {
		t.Errorf("the package documentation does not have this policy:\n%s", rules)
	}

	// The token is revoked during a leadership: renewals are denied, with an error, and the lease expires.
	_, err := l.root.ACL().TokenDelete(secret.AccessorID, nil)
	testbed.NoError(t, err)
	testbed.Eventually(t, time.Minute, "renewals to be denied", func() error {
		if a := n.Renews(held); !errors.Is(a.Err, backend.ErrDenied) || a.Outcome != backend.Unknown {
			return fmt.Errorf("%v, %v", a, a.Err)
		}
		return nil
	})
	other := l.node(t, "other", func(o *Options) { o.Token = testbed.ConsulToken })
	other.TakesOver("x")
}

// An observer's token can list and not write, whether or not the servers tell listing from reading. With less it is told
// the right that it lacks, before that of a member, which could depose the leader.
func TestAnObserverOnlyLists(t *testing.T) {
	for _, apart := range []bool{false, true} {
		agent := testbed.StartConsul(t, testbed.Options{Args: []string{testbed.ConsulACL, fmt.Sprintf("-hcl=acl {enable_key_list_policy = %v}", apart)}})
		l := newLab(t, agent)
		l.node(t, "n", func(o *Options) { o.Token = testbed.ConsulToken }).Leads("x")
		look := func(rules string) error {
			n := l.node(t, "o", func(o *Options) { o.Token = token(t, l.root, rules).SecretID })
			_, err := n.Looks("x")
			_, more := n.List(t.Context(), "", 10)
			return errors.Join(err, more)
		}
		right := fmt.Sprintf("key_prefix %q { policy = \"list\" }", l.prefix+"/")
		if err := look(right); err != nil {
			t.Errorf("enable_key_list_policy %v: %v", apart, err)
		}
		less := strings.Replace(right, "list", map[bool]string{true: "read", false: "deny"}[apart], 1)
		if err := look(less); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "an observer's token must be allowed this: "+right) {
			t.Errorf("enable_key_list_policy %v, with %s: %v; want ErrDenied with %s", apart, less, err, right)
		}
	}
}

// Without rights, or with an unknown token, every call is denied, and the error says which rights
// are needed. No error shows the token.
func TestEveryCallIsDeniedWithoutRights(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.Options{Args: []string{testbed.ConsulACL}})
	l := newLab(t, agent)
	strong := l.node(t, "strong", func(o *Options) { o.Token = testbed.ConsulToken })
	strong.Leads("there") // the servers hide only keys that exist
	testbed.NoError(t, strong.Announce(t.Context(), backend.Member{Candidate: strong.Me, TTL: time.Minute}))
	weak := token(t, l.root, `key_prefix "other/" { policy = "write" }`).SecretID
	for what, secret := range map[string]string{"none": "", "unknown": "00000000-dead-beef-0000-c0ffee000000", "weak": weak} {
		n := l.node(t, "n", func(o *Options) { o.Token = secret })
		for verb, err := range callAll(n) {
			if !errors.Is(err, backend.ErrDenied) {
				t.Errorf("%s with a token that is %s: %v, want ErrDenied", verb, what, err)
				continue
			}
			if secret != "" && strings.Contains(err.Error(), secret) {
				t.Errorf("%s with a token that is %s: the error shows it", verb, what)
			}
			if what == "weak" && !strings.Contains(err.Error(), n.driver.policy("write")) {
				t.Errorf("%s with a token that is %s: %v, which does not name the needed rights", verb, what, err)
			}
		}
	}
	secret := "canary-" + string(backend.NewNonce())
	canary := l.node(t, "n", func(o *Options) { o.Token = secret })
	err := canary.driver.fail(errors.New("the server says " + secret))
	if strings.Contains(err.Error(), secret) || backend.Class(err) != backend.ErrUnavailable {
		t.Errorf("a server's error that quotes the token: %v", err)
	}
	if text := fmt.Sprintf("%+v %#v", canary.driver.client, errors.Unwrap(err)); strings.Contains(text, "canary-") {
		t.Error("the library's client knows the token")
	}
}

func TestTLSIsVerified(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.Options{TLS: true})
	l := newLab(t, agent)
	for what, change := range map[string]func(*Options){
		"a file":     func(o *Options) { o.CAFile = agent.CAFile() },
		"a value":    func(o *Options) { o.TLS = agent.TLSConfig() },
		"the client": func(o *Options) { o.Client = l.root },
	} {
		n := l.node(t, "n", change)
		held := n.Leads("x " + what)
		n.Keeps(held)
	}
	for what, change := range map[string]func(*Options){
		"the system's authorities": func(*Options) {},
		"another name":             func(o *Options) { o.CAFile, o.ServerName = agent.CAFile(), "other.example" },
		"no TLS at all":            func(o *Options) { o.Address = agent.Addr() },
	} {
		n := l.node(t, "n", change)
		if _, err := n.Looks("x"); !errors.Is(err, backend.ErrDenied) {
			t.Errorf("with %s: %v, want ErrDenied", what, err)
		}
	}
}

// An agent that verifies clients denies a certificate of another authority, and no certificate.
func TestAClientCertificateIsSent(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.Options{TLS: true, Args: []string{"-hcl=tls {https {verify_incoming = true}}"}})
	l := newLab(t, agent)
	cert, key := agent.ClientFiles(t, "app")
	n := l.node(t, "n", func(o *Options) { o.CAFile, o.CertFile, o.KeyFile = agent.CAFile(), cert, key })
	held := n.Leads("x")
	n.Keeps(held)
	n = l.node(t, "n", func(o *Options) { o.TLS = agent.TLSConfig() })
	if got := n.Sees("x"); got.Term != held.Term {
		t.Errorf("with a certificate in a TLS configuration: %+v, want term %d", got, held.Term)
	}

	stranger := testbed.StartConsul(t, testbed.Options{TLS: true})
	cert, key = stranger.ClientFiles(t, "app")
	for what, change := range map[string]func(*Options){
		"no certificate":      func(o *Options) { o.CAFile = agent.CAFile() },
		"another authority's": func(o *Options) { o.CAFile, o.CertFile, o.KeyFile = agent.CAFile(), cert, key },
	} {
		n := l.node(t, "n", change)
		testbed.Eventually(t, time.Minute, what+" to be denied", func() error { // sometimes the error looks like a broken connection
			if _, err := n.Looks("x"); !errors.Is(err, backend.ErrDenied) {
				return fmt.Errorf("it is %w, want ErrDenied", err)
			}
			return nil
		})
	}
}

// The token file is read again when the token is refused or lacks a right, which an answer to a transaction says, too.
func TestATokenFileIsReadAgainAfterADenial(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.Options{Args: []string{testbed.ConsulACL}})
	l := newLab(t, agent)
	l.node(t, "strong", func(o *Options) { o.Token = testbed.ConsulToken }).Leads("x")
	weak := token(t, l.root, fmt.Sprintf("key_prefix %q { policy = \"write\" }", l.prefix+"/session/")).SecretID
	unknown := "00000000-dead-beef-0000-c0ffee000000"
	for what, text := range map[string]string{"an unknown token": unknown + "\n", "a weak token": weak, "two lines": "a\nb", "nothing": ""} {
		file := filepath.Join(t.TempDir(), "token")
		testbed.NoError(t, os.WriteFile(file, []byte(weak), 0o600))
		n := l.node(t, "n", func(o *Options) { o.TokenFile = file })
		observe := func() error {
			_, err := n.Looks("x")
			return err
		}
		testbed.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		for range 2 {
			if err := observe(); !errors.Is(err, backend.ErrDenied) {
				t.Errorf("%s in the file: %v; want ErrDenied", what, err)
			}
		}

		testbed.NoError(t, os.WriteFile(file, []byte(testbed.ConsulToken+"\n"), 0o600))
		observe()
		if err := observe(); err != nil {
			t.Errorf("%s in the file, and then a token with rights: %v", what, err)
		}
		late := n.driver.fail(fmt.Errorf("a server that answers late says %s and %s", weak, testbed.ConsulToken)).Error()
		if strings.Contains(late, weak) || strings.Contains(late, testbed.ConsulToken) {
			t.Errorf("%s in the file: an error shows the token or its predecessor", what)
		}
	}
}

// A token has no right for a moment. That is denied, and is not taken for another Consul: the leader goes on with its session.
func TestRightsThatAreMissingForAMomentCostNoSession(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.Options{Args: []string{testbed.ConsulACL}})
	l := newLab(t, agent)
	bound := token(t, l.root, fmt.Sprintf("key_prefix %q { policy = \"write\" }", l.prefix+"/"))
	n := l.node(t, "n", func(o *Options) { o.Token = bound.SecretID })
	held := n.Leads("own")
	policy, _, err := l.root.ACL().PolicyRead(bound.Policies[0].ID, nil)
	testbed.NoError(t, err)
	may := policy.Rules
	for _, rules := range []string{"", may} {
		policy.Rules = rules
		_, _, err := l.root.ACL().PolicyUpdate(policy, nil)
		testbed.NoError(t, err)
		n.wire.take()
		_, err = n.Renew(n.Context(), drivertest.Held(held))
		if denied := errors.Is(err, backend.ErrDenied) && strings.Contains(err.Error(), n.driver.policy("write")); denied != (rules == "") {
			t.Errorf("a renewal with the rights %q: %v", rules, err)
		}
		if sent := n.wire.take(); len(sent) != 1 {
			t.Errorf("a renewal with the rights %q takes the requests %q", rules, sent)
		}
	}
}
