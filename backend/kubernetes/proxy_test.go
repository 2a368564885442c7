package kubernetes

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/go-election/go-election/backend"
)

// A proxy that the environment names refuses in the words of a server, so an error names it. A process reads these
// variables once.
func TestAnErrorNamesTheProxyOfTheEnvironment(t *testing.T) {
	const child = "GO_ELECTION_TEST_PROXY"
	if os.Getenv(child) == "" {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
		defer proxy.Close()
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), child+"="+strings.TrimPrefix(proxy.URL, "http://"), "HTTPS_PROXY="+strings.Replace(proxy.URL, "http://", "http://app:canary7f3a@", 1), "NO_PROXY=near.invalid")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	for host, named := range map[string]bool{"https://far.invalid": true, "https://near.invalid": false} {
		b, err := Open(Options{Config: &rest.Config{Host: host}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if !errors.Is(err, backend.ErrUnavailable) || strings.Contains(err.Error(), "the proxy "+os.Getenv(child)+" (HTTPS_PROXY") != named || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v; want the proxy in it: %v", host, err, named)
		}
	}
}

// The etcd of the cluster has reached its quota: it can be read, and an administrator must act.
func TestAFullEtcdOfTheClusterIsDenied(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcdserver: mvcc: database space exceeded","code":500}`)
	}))
	defer server.Close()
	b, err := Open(Options{Config: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "etcdctl alarm disarm") {
		t.Errorf("%v; want ErrDenied with what to do", err)
	}
}
