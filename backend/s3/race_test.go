package s3

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// dropping returns the options of a store behind a proxy that drops headers, and signs requests itself as gateways
// do.
func dropping(t *testing.T, o Options, headers ...string) Options {
	t.Helper()
	to, err := url.Parse(o.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	key := aws.Credentials{AccessKeyID: testbed.S3AccessKey, SecretAccessKey: testbed.S3SecretKey}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		for _, h := range append(headers, "Authorization", "X-Forwarded-For", "Accept-Encoding", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request") {
			r.Out.Header.Del(h)
		}
		if err := v4.NewSigner().SignHTTP(r.Out.Context(), key, r.Out, r.Out.Header.Get("X-Amz-Content-Sha256"), "s3", "us-east-1", time.Now()); err != nil {
			t.Error(err)
		}
	}})
	t.Cleanup(proxy.Close)
	o.Endpoint = proxy.URL
	return o
}

// Behind a proxy that drops the conditions every write would succeed, and every process would lead.
func TestAStoreThatIgnoresConditionsIsRefused(t *testing.T) {
	t.Parallel()
	testbed.Full(t, "needs a proxy")
	node := testbed.SharedS3(t)
	for what, headers := range map[string][]string{
		"of all writes":       {"If-Match", "If-None-Match"},
		"of replacing writes": {"If-Match"},
		"of first writes":     {"If-None-Match"},
	} {
		for _, there := range []bool{false, true} {
			o := newOptions(node)
			if there { // the scratch object
				if err := open(t, o).Prepare(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			b := open(t, dropping(t, o, headers...))
			if err := b.Prepare(t.Context()); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "ignores the conditions") {
				t.Errorf("a proxy that drops the conditions %s: %v", what, err)
			}
			m, err := election.New(b, election.Options{TTL: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close(t.Context())
			e, err := m.Join("jobs")
			if err == nil {
				err = e.Lead(nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Check(t.Context()); !errors.Is(err, backend.ErrDenied) || e.Current().Leading {
				t.Errorf("a manager behind it: %v, it leads: %v", err, e.Current().Leading)
			}
			if list, err := b.Inspect(t.Context(), 10*time.Second, 3*time.Second); err != nil || len(list) != 2 || !list[1].Fatal {
				t.Errorf("the doctor of such a store says %v, %v", list, err)
			}
		}
	}
	if err := open(t, dropping(t, newOptions(node))).Prepare(t.Context()); err != nil {
		t.Errorf("a proxy that drops nothing: %v", err)
	}
}

// What was written must be read.
func TestACacheBeforeTheStoreIsRefused(t *testing.T) {
	t.Parallel()
	testbed.Full(t, "needs a proxy")
	o := newOptions(testbed.SharedS3(t))
	if err := open(t, o).Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	o = dropping(t, o)
	to, err := url.Parse(o.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	cached := map[string]*httptest.ResponseRecorder{}
	forward := httputil.NewSingleHostReverseProxy(to)
	cache := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			forward.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		answer := cached[r.URL.Path]
		if answer == nil {
			answer = httptest.NewRecorder()
			forward.ServeHTTP(answer, r)
			cached[r.URL.Path] = answer
		}
		w.Header().Set("ETag", answer.Header().Get("ETag"))
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(cache.Close)
	o.Endpoint = cache.URL
	if err := open(t, o).Prepare(t.Context()); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "a cache answers") {
		t.Errorf("a cache before the store: %v", err)
	}
}

func TestAStoreThatComparesIsNotRefused(t *testing.T) {
	t.Parallel()
	testbed.Full(t, "takes long")
	o := newOptions(testbed.SharedS3(t))
	var all sync.WaitGroup
	for range 4 { // processes that start at once race on one scratch object
		all.Go(func() {
			b := open(t, o)
			defer b.Close()
			if err := b.Prepare(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := open(t, o).Inspect(t.Context(), 10*time.Second, 3*time.Second); err != nil || len(list) != 2 || list[0].Warning || list[1].Warning {
		t.Errorf("%v, %v", list, err)
	}
}
