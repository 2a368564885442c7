package firefly

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/consul"
	"github.com/go-election/go-election/lab/testbed"
)

const labTTL = 2 * time.Second

// A lab is a prefix of its own on an agent, with a client for what operators do.
type lab struct {
	agent  *testbed.ConsulAgent
	root   *api.Client
	prefix string
}

func newLab(t testing.TB, agent *testbed.ConsulAgent) *lab {
	t.Helper()
	root, err := api.NewClient(&api.Config{Address: agent.URL(), Token: agent.AdminToken(), Transport: &http.Transport{DisableKeepAlives: true}})
	fatal(t, err)
	l := &lab{agent, root, "lab/" + string(backend.NewNonce()[:16])}
	t.Cleanup(func() { wipe(root, l.prefix) })
	return l
}

// wipe deletes all keys below a prefix, if the agent still answers.
func wipe(root *api.Client, prefix string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	root.KV().DeleteTree(prefix+"/", write(ctx))
}

// rootOf is where the elections of a lab are.
func (l *lab) rootOf() string { return l.prefix + "/leader-election/" }

// open opens a Backend with keys of its own, so that other tests do not wake it.
func (l *lab) open(t testing.TB, o consul.Options) *Backend {
	t.Helper()
	o.Prefix = l.prefix
	f, err := Open(o, quick)
	fatal(t, err)
	f.setRoot(l.rootOf())
	t.Cleanup(func() { f.Close() })
	return f
}

// A wire records the requests of a client.
type wire struct {
	next http.RoundTripper
	mu   sync.Mutex
	sent []string // method, URL and body
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(text)
		r.Body = io.NopCloser(strings.NewReader(body))
	}
	w.mu.Lock()
	w.sent = append(w.sent, r.Method+" "+r.URL.String()+" "+body)
	w.mu.Unlock()
	return w.next.RoundTrip(r)
}

func fatal(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
