package s3

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// dropping returns the options of a store behind a proxy that drops headers, and signs requests itself as gateways do.
func dropping(t *testing.T, o Options, headers ...string) Options {
	t.Helper()
	to, err := url.Parse(o.Endpoint)
	testbed.NoError(t, err)
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
				testbed.NoError(t, open(t, o).Prepare(t.Context()))
			}
			b := open(t, dropping(t, o, headers...))
			if err := b.Prepare(t.Context()); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "ignores the conditions") {
				t.Errorf("a proxy that drops the conditions %s: %v", what, err)
			}
			m, err := election.New(b, election.Options{TTL: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
			testbed.NoError(t, err)
			defer m.Close(t.Context())
			e, err := m.Join("jobs")
			if err == nil {
				err = e.Lead(nil)
			}
			testbed.NoError(t, err)
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
	testbed.NoError(t, open(t, o).Prepare(t.Context()))
	o = dropping(t, o)
	to, err := url.Parse(o.Endpoint)
	testbed.NoError(t, err)
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

// A store may take one write of an object in a while, or answer one after another those whose condition does not hold. A
// process that campaigns there leads all the same.
func TestAStoreThatIsSlowToRefuseIsNotRefused(t *testing.T) {
	t.Parallel()
	testbed.Full(t, "needs a proxy")
	node := testbed.SharedS3(t)
	for what, slow := range map[string]func(http.Handler) http.Handler{"it limits writes": limitsWrites, "it refuses one by one": refusesOneByOne} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := dropping(t, newOptions(node))
			to, err := url.Parse(o.Endpoint)
			testbed.NoError(t, err)
			before := httptest.NewServer(slow(httputil.NewSingleHostReverseProxy(to)))
			t.Cleanup(before.Close)
			o.Endpoint = before.URL
			e := drivertest.Join(t, "a", 10*time.Second, open(t, o))
			testbed.NoError(t, e.Lead(nil))
			testbed.Eventually(t, 30*time.Second, "it leads", func() error {
				if !e.Leading() {
					return errors.New(e.Current().String())
				}
				return nil
			})
		})
	}
}

// A proxy that lets only small requests pass, as nginx does by default, stops all elections when there are some thousands.
func TestInspectNamesAProxyThatRefusesLargeWrites(t *testing.T) {
	t.Parallel()
	o := dropping(t, newOptions(testbed.SharedS3(t)))
	to, err := url.Parse(o.Endpoint)
	testbed.NoError(t, err)
	next := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 1<<20 {
			io.Copy(io.Discard, r.Body)
			http.Error(w, "<html>413</html>", http.StatusRequestEntityTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	o.Endpoint = proxy.URL
	list, err := open(t, o).Inspect(t.Context(), 10*time.Second, 3*time.Second)
	if text := fmt.Sprint(list); err != nil || !strings.Contains(text, "pass 8388608 bytes (client_max_body_size)") {
		t.Errorf("%v, %v; want the size", text, err)
	}
}

// limitsWrites puts off a write that comes less than 0.4 s after another.
func limitsWrites(next http.Handler) http.Handler {
	var mu sync.Mutex
	var last time.Time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		soon := r.Method == http.MethodPut && time.Since(last) < 400*time.Millisecond
		if r.Method == http.MethodPut && !soon {
			last = time.Now()
		}
		mu.Unlock()
		if soon {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refusesOneByOne takes a second for the refusal of each write that was under way beside another.
func refusesOneByOne(next http.Handler) http.Handler {
	var under atomic.Int32
	var one sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			next.ServeHTTP(w, r)
			return
		}
		beside := under.Add(1) > 1
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if answer.Code == http.StatusPreconditionFailed && beside {
			one.Lock()
			<-time.After(time.Second)
			one.Unlock()
		}
		under.Add(-1)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes())
	})
}
