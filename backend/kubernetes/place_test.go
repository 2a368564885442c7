package kubernetes

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// kubectl writes a kubeconfig in which the current context has a namespace, as "kubectl config set-context" does, and
// has these contexts beside it.
func (l *lab) kubectl(t *testing.T, namespace string, others ...string) (file string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(l.file)
	testbed.NoError(t, err)
	now := config.Contexts[config.CurrentContext]
	now.Namespace = namespace
	for _, name := range others {
		config.Contexts[name] = &clientcmdapi.Context{Cluster: now.Cluster, AuthInfo: now.AuthInfo}
	}
	file = filepath.Join(t.TempDir(), "kubeconfig")
	testbed.NoError(t, clientcmd.WriteToFile(*config, file))
	return file
}

// leads reports whether a process with these options leads jobs.
func (l *lab) leads(t *testing.T, id string, o Options) (*node, error) {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { b.Close() })
	n := newNode(t, b, id)
	if a := n.Bids(n.Sees("jobs")); a.Outcome != backend.Granted {
		return n, a.Err
	}
	return n, nil
}

// Two processes have the same options, and kubectl is told another namespace between their starts. If the first of them
// led, so would the second.
func TestTheNamespaceOfKubectlIsNotBelieved(t *testing.T) {
	l := sharedLab(t)
	k := l.server
	for _, namespace := range []string{l.namespace, k.Namespace(t)} {
		_, err := l.leads(t, "n", Options{Kubeconfig: l.kubectl(t, namespace)})
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "set namespace") || !strings.Contains(err.Error(), namespace) {
			t.Errorf("no namespace is configured, and kubectl has %q: %v; want ErrInvalid with that name", namespace, err)
		}
	}
}

// Whoever says "kubectl config use-context" would send the next process to another cluster.
func TestTheCurrentContextOfSeveralIsNotBelieved(t *testing.T) {
	l := sharedLab(t)
	o := Options{Kubeconfig: l.kubectl(t, "", "staging"), Namespace: l.namespace}
	if _, err := l.leads(t, "n", o); !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "set context") {
		t.Errorf("no context is configured, and the kubeconfig has two: %v; want ErrInvalid that says so", err)
	}
	o.Context = "staging"
	n, err := l.leads(t, "m", o)
	if err != nil {
		t.Fatalf("with a context: %v", err)
	}
	list, err := n.Inspect(t.Context(), ttl, ttl/3)
	if err != nil || !strings.HasSuffix(list[0].Text, "/"+l.namespace) {
		t.Errorf("doctor: %v, %v; want the namespace", list, err)
	}
}

// The account may use one Lease alone. All others are denied to it, and not missing.
func TestARightToOneLeaseShowsNoneAsMissing(t *testing.T) {
	l := sharedLab(t)
	k := l.server
	admin := l.node(t, "admin")
	admin.Leads("jobs")
	admin.Leads("other")
	l.allow(t, "narrow", []string{"get", "list", "watch", "create", "update", "delete"}, "jobs", "missing")
	l.file = k.Kubeconfig(t, "narrow")
	n := l.node(t, "n")
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	if got := n.Sees("jobs"); got.Holder.ID != "admin" {
		t.Errorf("the Lease that may be read: %+v", got)
	}
	for _, election := range []string{"other", "missing", "never-led"} {
		_, err := n.Looks(election)
		mustBeDenied(t, err, "kubectl create role")
	}
	_, err := n.List(ctx, "", 10)
	mustBeDenied(t, err, "kubectl create role")
	_, err = n.Members(ctx, "", 10)
	mustBeDenied(t, err, "kubectl create role")
}

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
		testbed.NoError(t, err)
		_, err = b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if !errors.Is(err, backend.ErrUnavailable) || strings.Contains(err.Error(), "the proxy "+os.Getenv(child)+" (HTTPS_PROXY") != named || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v; want the proxy in it: %v", host, err, named)
		}
	}
}

// A command for credentials may hang, as the server may. One that cannot be run is for an administrator.
func TestAnErrorNamesTheCommandForCredentials(t *testing.T) {
	for command, want := range map[string]error{"sleep": backend.ErrUnavailable, "false": backend.ErrUnavailable, "no-such-command": backend.ErrDenied} {
		b, err := Open(Options{Config: &rest.Config{Host: "https://far.invalid", ExecProvider: &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode, Command: command, Args: []string{"2"},
		}}})
		testbed.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		_, err = b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
		cancel()
		if !errors.Is(err, want) || !strings.Contains(err.Error(), `the command "`+command+`"`) {
			t.Errorf("%s: %v; want %v, and the command", command, err, want)
		}
	}
}

// The etcd of the cluster has reached its quota: it can be read, and an administrator must act. What a policy denies has the
// status that its author has chosen: the token is right, and nobody else has written.
func TestARefusalIsWhatItsMessageSays(t *testing.T) {
	for _, c := range []struct {
		code              int
		says, hint, falsy string
		class             error
	}{
		{http.StatusInternalServerError, "etcdserver: mvcc: database space exceeded", "etcdctl alarm disarm", "-", backend.ErrDenied},
		{http.StatusUnauthorized, "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no", "", "renew", backend.ErrDenied},
		{http.StatusConflict, `admission webhook "x" denied the request: no`, "", "-", backend.ErrUnavailable},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"code":%d}`, c.says, c.code)
		}))
		defer server.Close()
		b, err := Open(Options{Config: &rest.Config{Host: server.URL}})
		testbed.NoError(t, err)
		_, err = b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if text := fmt.Sprint(err); !errors.Is(err, c.class) || !strings.Contains(text, c.says) ||
			!strings.Contains(text, c.hint) || strings.Contains(text, c.falsy) || conflict(err) {
			t.Errorf("%v; want %v with what to do, and nobody else's write", err, c.class)
		}
	}
}

// A token in a kubeconfig, and the authorities in a file that it names, are replaced while the program runs.
func TestWhatIsReplacedInFilesIsReadAgain(t *testing.T) {
	l := sharedLab(t)
	read := func(file string) []byte {
		t.Helper()
		text, err := os.ReadFile(file)
		testbed.NoError(t, err)
		return text
	}
	_, token := l.server.ServiceAccount(t, l.namespace, "app")
	withToken, withCert := read(l.server.TokenKubeconfig(t, token)), read(l.file)
	ca := read(l.server.CAFile())
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	inline := `"certificate-authority-data": "` + base64.StdEncoding.EncodeToString(ca) + `"`
	withFile := bytes.Replace(withCert, []byte(inline), []byte(`"certificate-authority": "`+caFile+`"`), 1)
	kubeconfig, named := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "kubeconfig")
	testbed.NoError(t, os.WriteFile(named, withFile, 0o600))

	wrong := bytes.Replace(withToken, []byte(token), []byte("canary7f3a"), 1)
	several, err := clientcmd.Load(withToken) // "kubectl config set-context" and "use-context" have been there as well
	testbed.NoError(t, err)
	several.Contexts["other"], several.CurrentContext = &clientcmdapi.Context{Cluster: "testbed", AuthInfo: "nobody"}, "other"
	withOthers, err := clientcmd.Write(*several)
	testbed.NoError(t, err)

	for what, c := range map[string]struct {
		kubeconfig, file string
		before, after    []byte
	}{
		"a token":                        {kubeconfig, kubeconfig, wrong, withToken},
		"a token beside another context": {kubeconfig, kubeconfig, wrong, withOthers},
		"authorities":                    {named, caFile, read(testbed.StartEtcd(t, testbed.Options{TLS: true}).CAFile()), ca},
	} {
		testbed.NoError(t, os.WriteFile(c.file, c.before, 0o600))
		b, err := Open(Options{Kubeconfig: c.kubeconfig, Namespace: l.namespace})
		testbed.NoError(t, err)
		defer b.Close()
		observe := func() error {
			_, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
			if api.IsForbidden(err) {
				return nil
			}
			return err
		}
		err = observe()
		if text := fmt.Sprint(err); !errors.Is(err, backend.ErrDenied) || strings.Contains(text, "Unauthorized") != strings.Contains(text, "renew") {
			t.Errorf("%s of before: %v; want ErrDenied, and what to do for the API server's word alone", what, err)
		}
		testbed.NoError(t, os.WriteFile(c.file, c.after, 0o600))
		observe() // is refused, and reads the files again
		if err := observe(); err != nil {
			t.Errorf("%s were replaced: %v", what, err)
		}
	}
}

// The name of the API server has several addresses, all but the last of which drop packets or hang.
func TestANameWithADeadAddressIsReached(t *testing.T) {
	if !drivertest.InWorldOfManyAddresses(t) {
		return
	}
	l := newLab(t, testbed.StartKubernetes(t, testbed.Options{}))
	b := l.openAt(t, func(server string) string { return drivertest.AtManyAddresses(t, server) })
	n := newNode(t, b, "n")
	n.Limit = 5 * time.Second // as of a manager with a TTL of 15 s
	n.TakesOver("jobs")
}

// openAt returns a Backend that reaches the API server at the address that at returns.
func (l *lab) openAt(t *testing.T, at func(server string) string) *Backend {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", l.file)
	testbed.NoError(t, err)
	real, err := url.Parse(config.Host)
	testbed.NoError(t, err)
	config.Host, config.ServerName = "https://"+at(real.Host), real.Hostname()
	return testbed.Open(t, Open, Options{Config: config, Namespace: l.namespace})
}

func TestDeadConnectionsCostOneCall(t *testing.T) {
	var proxy *testbed.Proxy
	b := sharedLab(t).openAt(t, func(server string) string {
		proxy = testbed.NewProxy(t, server)
		return proxy.Addr()
	})
	drivertest.DeadConnectionsCostOneCall(t, proxy, func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
		return err
	})
}
