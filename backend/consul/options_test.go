package consul

import (
	"crypto/tls"
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

func TestOptionsAreCheckedBeforeAnyRequest(t *testing.T) {
	secret := "hunter2-" + string(backend.NewNonce())
	nothing := filepath.Join(t.TempDir(), "token")
	testbed.NoError(t, os.WriteFile(nothing, []byte("\n"), 0o600))
	for what, o := range map[string]Options{
		"nothing in the token file":  {TokenFile: nothing},
		"credentials in the address": {Address: "http://user:" + secret + "@localhost:8500"},
		"another scheme":             {Address: "ftp://localhost"},
		"not an address":             {Address: "http://%zz" + secret},
		"no such port":               {Address: "localhost:99999"},
		"a port that is missing":     {Address: "unix:/run/consul.sock"},
		"a socket without path":      {Address: "unix://"},
		"a slash":                    {Prefix: "a/"},
		"a control character":        {Prefix: "a\x00b"},
		"no token file":              {TokenFile: "/does/not/exist"},
		"no authorities":             {Address: "https://localhost", CAFile: "/does/not/exist"},
		"half a certificate":         {Address: "https://localhost", CertFile: "/x"},
		"TLS without https":          {Address: "http://localhost", CAFile: "/x"},
		"TLS twice":                  {Address: "https://localhost", CAFile: "/x", TLS: &tls.Config{}},
	} {
		b, err := Open(o)
		if !errors.Is(err, backend.ErrInvalid) || b != nil {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows a secret", what)
		}
	}
	if b, err := Open(Options{}); err != nil {
		t.Errorf("no options, and no agent: %v", err)
	} else {
		b.Close()
	}
}

// Open ignores the CONSUL_* variables: a program is configured in one place.
func TestTheEnvironmentIsNotRead(t *testing.T) {
	agent := testbed.SharedConsul(t)
	for name, value := range map[string]string{
		"CONSUL_HTTP_ADDR": "127.0.0.1:1", "CONSUL_HTTP_TOKEN": "00000000-dead-beef-0000-c0ffee000000", "CONSUL_HTTP_TOKEN_FILE": "/does/not/exist",
		"CONSUL_HTTP_SSL": "true", "CONSUL_NAMESPACE": "other", "CONSUL_PARTITION": "other", "CONSUL_CACERT": "/does/not/exist",
	} {
		t.Setenv(name, value)
	}
	prefix := "env/" + string(backend.NewNonce())
	b := open(t, Options{Address: agent.URL(), Prefix: prefix})
	n := drivertest.NewCandidate(t, b, "n", labTTL)
	n.Resigns(n.Leads("x"))
	wipe(b.driver.client, prefix)
}

// Preflight reports a missing right before the first bid, for exactly the elections that it affects.
func TestRightsAreTriedBeforeTheFirstBid(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.Options{Args: []string{testbed.ConsulACL}})
	l := newLab(t, agent)
	all := fmt.Sprintf(`key_prefix %q { policy = "write" }`, l.prefix+"/")
	but := func(key string) string {
		return all + fmt.Sprintf(`key_prefix %q { policy = "read" }`, key)
	}
	for what, c := range map[string]struct {
		rules      string
		jobs, some bool // whether it may lead them
	}{
		"all":                {all, true, true},
		"records to read":    {but(l.prefix + "/record/"), false, false},
		"one record to read": {but(l.record("some")), true, false},
		"the meta item":      {but(l.prefix + "/meta"), false, false},
		"everything to read": {fmt.Sprintf(`key_prefix %q { policy = "read" }`, l.prefix+"/"), false, false},
		"no session":         {but(l.prefix + "/session/"), false, false},
	} {
		n := l.node(t, "n", func(o *Options) { o.Token = token(t, l.root, c.rules).SecretID })
		errs := n.Preflight(n.Context(), []backend.Bid{{Election: "jobs", Candidate: n.Me, TTL: labTTL}, {Election: "some", Candidate: n.Me, TTL: labTTL}})
		for i, may := range []bool{c.jobs, c.some} {
			if may != (errs[i] == nil) || !may && !errors.Is(errs[i], backend.ErrDenied) {
				t.Errorf("%s: bid %d: %v", what, i, errs[i])
			}
		}
	}
	pairs, _, err := l.root.KV().List(l.prefix, nil)
	if testbed.NoError(t, err); len(pairs) > 0 {
		t.Errorf("after Preflight there are %d keys", len(pairs))
	}
}

// A program that keeps data in the same Consul makes each write depend on the lease.
func TestAFencedTransactionFailsAfterATakeover(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	a.TTL, b.TTL = 8*time.Second, 8*time.Second
	held := a.Leads("x")
	put := func(n *node) bool {
		t.Helper()
		fence, err := n.Fence("x", held.Term)
		testbed.NoError(t, err)
		ok, _, _, err := l.root.KV().Txn(api.KVTxnOps{fence, {Verb: api.KVSet, Key: l.prefix + "/data", Value: []byte("1")}}, nil)
		testbed.NoError(t, err)
		return ok
	}
	a.Renews(held)
	if !put(a) {
		t.Error("a write of the leader did not pass its fence")
	}
	testbed.NoError(t, b.Request(t.Context(), []backend.Request{{Election: "x", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: b.Me.Nonce}}))
	if put(a) {
		t.Error("the page says that a request of an operator stops fenced writes until the next renewal")
	}
	a.Keeps(held)
	if !put(a) {
		t.Error("a write of the leader did not pass its fence after the request and a renewal")
	}
	b.TakesOver("x")
	if put(a) {
		t.Error("a write passed the fence of a past leadership")
	}
	if _, err := a.Fence("x", held.Term+1); !errors.Is(err, backend.ErrStale) {
		t.Errorf("a fence of a term that is not held: %v, want ErrStale", err)
	}
}
