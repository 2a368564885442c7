package consul

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

func connect(t *testing.T, address string) *driver { return open(t, Options{Address: address}).driver }

// Two of three servers die, so that none leads.
func TestInspectSaysWhenServersAreLost(t *testing.T) {
	t.Parallel()
	servers := testbed.StartConsulCluster(t, 3)
	a := open(t, Options{Address: servers[0].URL()})
	inspects(t, a, "servers: 3; ", "1 of them can fail")
	servers[1].Kill(t)
	servers[2].Kill(t)
	inspects(t, a, "WARNING servers: 3, and none leads")
}

// inspects waits until Inspect says all this.
func inspects(t *testing.T, b *Backend, want ...string) {
	t.Helper()
	testbed.Eventually(t, 2*time.Minute, fmt.Sprintf("Inspect says %q", want), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		list, err := b.driver.servers(ctx)
		if err != nil {
			return err
		}
		text := ""
		for _, d := range list {
			text += d.String() + "\n"
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				return fmt.Errorf("%q is missing:\n%s", w, text)
			}
		}
		return nil
	})
}

// A real server refuses what is wrong, and the error says what to correct.
func TestRefusalsSayWhatToCorrect(t *testing.T) {
	t.Parallel()
	server := testbed.StartConsul(t, testbed.Options{Args: []string{"-hcl=limits {kv_max_value_size = 300000}"}})
	a := connect(t, server.URL())
	for want, do := range map[string]func(ctx context.Context) error{
		"Consul 1.14 or later is needed": func(ctx context.Context) error {
			_, answer, err := a.txn(ctx, api.KVTxnOps{{Verb: "no-such-verb", Key: "election/x"}})
			if err == nil {
				err = refusal(answer)
			}
			return err
		},
		"and kv_max_value_size of the agents, and the limit of a proxy": func(ctx context.Context) error {
			_, _, err := a.txn(ctx, api.KVTxnOps{{Verb: api.KVSet, Key: "election/x", Value: make([]byte, 1<<20)}})
			return err
		},
		"raise txn_max_req_len and kv_max_value_size": func(ctx context.Context) error {
			_, _, err := a.txn(ctx, api.KVTxnOps{{Verb: api.KVSet, Key: "election/x", Value: make([]byte, 350_000)}})
			return err
		},
		"is this the address of a Consul agent?": func(ctx context.Context) error {
			_, err := a.client.Raw().Query("/no-such-page", nil, a.query(ctx, 0))
			return err
		},
	} {
		err := a.fail(do(t.Context()))
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want ErrDenied with %q", err, want)
		}
	}
}

// A proxy before the agent answers a reading and a transaction with a code, and maybe no word.
func TestTheAnswerOfAProxyHasItsCode(t *testing.T) {
	for code, class := range map[int]error{
		302: backend.ErrDenied, 400: backend.ErrDenied, 401: backend.ErrDenied, 403: backend.ErrDenied,
		406: backend.ErrDenied, 407: backend.ErrDenied, 410: backend.ErrDenied, 421: backend.ErrDenied,
		500: backend.ErrUnavailable, 408: backend.ErrUnavailable, 429: backend.ErrUnavailable, 502: backend.ErrUnavailable, 504: backend.ErrUnavailable,
	} {
		for _, body := range []string{"", "<html>\n<h1>Denied</h1>\n</html>\n"} {
			var clients sync.Map
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, again := clients.Swap(r.RemoteAddr, true); again && code >= 500 {
					t.Errorf("%d: the connection is used again, though it may lead to a server that its cluster has lost", code)
				}
				w.WriteHeader(code)
				io.WriteString(w, body)
			}))
			defer proxy.Close()
			a := connect(t, proxy.URL)
			_, _, txn := a.txn(t.Context(), api.KVTxnOps{{Verb: api.KVGet, Key: "election/x"}})
			_, index := a.index(t.Context(), "election/", 0)
			for what, err := range map[string]error{"transaction": a.fail(txn), "reading": a.fail(index)} {
				if !errors.Is(err, class) || !strings.Contains(err.Error(), fmt.Sprint("code: ", code)) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s, %d %q: %v; want %v with the code", what, code, body, err, class)
				}
			}
		}
	}
}

// Without an index nobody can tell whether a listing is still the same, and a query that waits would not wait.
func TestAListingWithoutAnIndexIsDenied(t *testing.T) {
	for index, good := range map[string]bool{"": false, "0": false, "-1": false, "x": false, "1": true, "18446744073709551615": true} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name, value := range map[string]string{"Index": index, "LastContact": "0", "KnownLeader": "true"} {
				if value != "" {
					w.Header().Set("X-Consul-"+name, value)
				}
			}
			io.WriteString(w, "[]")
		}))
		defer proxy.Close()
		a := connect(t, proxy.URL)
		_, err := a.index(t.Context(), "election/", 0)
		if err = a.fail(err); (err == nil) != good || !good && !strings.Contains(err.Error(), "X-Consul-Index") {
			t.Errorf("index %q: %v", index, err)
		}
		if index == "" && !errors.Is(err, backend.ErrDenied) {
			t.Errorf("without an index: %v; want ErrDenied", err)
		}
	}
}

// A gateway answers a write with a page or JSON of its own, and nothing was written. Who believed that would lead beside
// the next one.
func TestAnAnswerThatNamesNoWriteRenewsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	n := l.node(t, "n")
	held := n.Leads("x")
	last := l.pair(t, l.session(n.Me.Nonce))
	agent := n.wire.next
	of := func(key string) string {
		return fmt.Sprintf(`{"Results":[{"KV":{"Key":%q,"ModifyIndex":%d}}]}`, key, last.ModifyIndex)
	}
	for _, text := range []string{"<html>Log in</html>", "[]", "{}", "null", `{"status":"ok"}`, of("y"), of(last.Key)} { // the last one as of the write before
		n.wire.next = answering(text)
		a := n.Renews(held)
		if a.Outcome != backend.Unknown || !errors.Is(a.Err, backend.ErrDenied) || !strings.Contains(a.Err.Error(), "is this the address of a Consul agent?") {
			t.Errorf("two leaders: %s renews a lease: %v, %v; want ErrDenied, and a question about the address", text, a.Outcome, a.Err)
		}
	}
	n.wire.next = agent
	n.Keeps(held)
}

// answering is an agent that answers every request with a text.
type answering string

func (text answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, nil
}
