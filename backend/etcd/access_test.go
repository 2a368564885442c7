package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

const secret = "canary-4711"

// withUsers starts a node with users, and returns an administrator's client. The user app has the rights that doc.go names.
func withUsers(t testing.TB, prefix string, o testbed.Options) (*testbed.Daemon, *clientv3.Client) {
	t.Helper()
	n := testbed.StartEtcd(t, o)
	config := clientv3.Config{Endpoints: []string{n.URL()}, Logger: zap.NewNop()}
	if o.TLS {
		config.TLS = n.TLSConfig()
		cert, key := n.ClientFiles(t, "root")
		pair, err := tls.LoadX509KeyPair(cert, key)
		testbed.NoError(t, err)
		config.TLS.Certificates = []tls.Certificate{pair}
	}
	c, err := clientv3.New(config)
	testbed.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), callLimit)
	defer cancel()
	must := func(_ any, err error) {
		t.Helper()
		testbed.NoError(t, err)
	}
	must(c.UserAdd(ctx, "root", "rootpass"))
	must(c.UserGrantRole(ctx, "root", "root"))
	for role, kind := range map[string]clientv3.PermissionType{"election": clientv3.PermissionType(clientv3.PermReadWrite), "observer": clientv3.PermissionType(clientv3.PermRead)} {
		must(c.RoleAdd(ctx, role))
		must(c.RoleGrantPermission(ctx, role, prefix, clientv3.GetPrefixRangeEnd(prefix), kind))
	}
	for user, role := range map[string]string{"app": "election", "eye": "observer"} {
		must(c.UserAdd(ctx, user, secret))
		must(c.UserGrantRole(ctx, user, role))
	}
	must(c.AuthEnable(ctx))
	if !o.TLS {
		config.Username, config.Password = "root", "rootpass"
	}
	return n, testbed.Open(t, clientv3.New, config)
}

// Two managers use every method with the documented rights and no more, and with tokens that expire after a second.
func TestTheDocumentedRightsSuffice(t *testing.T) {
	t.Parallel()
	const prefix = "app/"
	n, root := withUsers(t, prefix, testbed.Options{Args: []string{"--auth-token-ttl=1", "--bcrypt-cost=4"}})
	o := Options{Endpoints: []string{n.URL()}, Prefix: prefix, Username: "app", Password: secret}
	a := openNode(t, "a", o)
	exerciseAll(t, a, openNode(t, "b", o))

	// An observer can read and listen, but not write.
	o.Username = "eye"
	eye := openNode(t, "eye", o)
	held := a.Leads("jobs")
	seen := eye.Sees("jobs")
	if seen.Holder != a.Me {
		t.Errorf("an observer sees %+v", seen)
	}
	returned := eye.listenAsync(seen)
	if err := eye.Bids(eye.Sees("free")).Err; !errors.Is(err, backend.ErrDenied) || !strings.Contains(fmt.Sprint(err), "needed: etcdctl role grant-permission") {
		t.Errorf("an observer's bid: %v; want ErrDenied and the command that grants the right", err)
	}

	// Tokens expire, also during Listen.
	time.Sleep(2500 * time.Millisecond)
	if got := eye.Sees("jobs"); got.Term != held.Term {
		t.Errorf("an observer whose token has expired sees %+v", got)
	}
	a.Resigns(a.Keeps(held))
	if err := <-returned; err != nil {
		t.Errorf("Listen beyond the expiry of a token: %v", err)
	}

	// The right is revoked during a leadership: the renewal fails, and its error says why.
	held = a.Leads("jobs")
	ctx := a.Context()
	_, err := root.UserRevokeRole(ctx, "app", "election")
	testbed.NoError(t, err)
	if got := a.Renews(held); !errors.Is(got.Err, backend.ErrDenied) || got.Outcome != backend.Unknown {
		t.Errorf("a renewal without rights: %v, %v; want ErrDenied and no outcome", got.Outcome, got.Err)
	}
	if err := a.Listen(ctx, []backend.Lease{held}); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("Listen without rights: %v; want ErrDenied", err)
	}
	_, err = root.UserGrantRole(ctx, "app", "election")
	testbed.NoError(t, err)
	a.Keeps(held)
}

// exerciseAll calls every method, for two candidates with full rights.
func exerciseAll(t *testing.T, a, b *node) {
	t.Helper()
	held := a.Leads("all")
	held = a.Keeps(held)
	ctx := a.Context()
	testbed.NoError(t, errors.Join(
		a.Announce(ctx, backend.Member{Candidate: a.Me, TTL: ttl}), a.Announce(ctx, backend.Member{Candidate: a.Me, TTL: ttl}),
		b.Request(ctx, []backend.Request{{Election: "all", Term: held.Term, Kind: backend.Nominate, ID: "b"}}),
	))
	if members, err := b.Members(ctx, "", 10); err != nil || len(members) != 1 || members[0].Candidate != a.Me {
		t.Errorf("members: %v, %v", members, err)
	}
	if records, err := b.List(ctx, "", 10); err != nil || len(records) != 1 || records[0].Request.ID != "b" {
		t.Errorf("records: %v, %v", records, err)
	}
	returned := b.listenAsync(b.Sees("all"))
	a.Resigns(held)
	if err := <-returned; err != nil {
		t.Errorf("listen: %v", err)
	}
	b.Resigns(b.Leads("all"))
}

func TestTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	const prefix = "app/"
	n, _ := withUsers(t, prefix, testbed.Options{TLS: true})
	cert, key := n.ClientFiles(t, "app") // its common name is the user
	files := Options{Endpoints: []string{n.URL()}, Prefix: prefix, CAFile: n.CAFile(), CertFile: cert, KeyFile: key}
	exerciseAll(t, openNode(t, "a", files), openNode(t, "b", files))

	pair, err := tls.LoadX509KeyPair(cert, key)
	testbed.NoError(t, err)
	config := n.TLSConfig()
	config.Certificates = []tls.Certificate{pair}
	if got := openNode(t, "c", Options{Endpoints: []string{n.Addr()}, Prefix: prefix, TLS: config}).Sees("all"); got.Term == 0 {
		t.Errorf("with a TLS configuration of the program: %+v", got)
	}
	for what, o := range map[string]Options{
		"no client certificate":    {CAFile: n.CAFile()},
		"the system's authorities": {CertFile: cert, KeyFile: key},
	} {
		o.Endpoints, o.Prefix = []string{n.URL()}, prefix
		d := openNode(t, "d", o)
		testbed.Eventually(t, patience, what+" is denied", func() error { // sometimes it looks like a broken connection
			if _, err := d.Looks("all"); !errors.Is(err, backend.ErrDenied) {
				return fmt.Errorf("%w; want ErrDenied", err)
			}
			return nil
		})
	}
}

// What answers is no etcd, or one with TLS where none was named, or the other way round. The error asks for that.
func TestAnEndpointThatSpeaksOtherwiseIsNamed(t *testing.T) {
	t.Parallel()
	plain, secure := testbed.StartEtcd(t, testbed.Options{}), testbed.StartEtcd(t, testbed.Options{TLS: true})
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for what, url := range map[string]string{
		"TLS":          "http://" + secure.Addr(),
		"no TLS":       "https://" + plain.Addr(),
		"a web server": web.URL,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), callLimit)
		_, err := open(t, options(url)).Observe(ctx, []backend.Lease{{Election: "jobs"}})
		cancel()
		if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "is it http or https as it is named?") {
			t.Errorf("%s: %v; want ErrUnavailable and the question", what, err)
		}
	}
}

// No error and no output contains a password, and each failure has its class.
func TestErrorsHideThePassword(t *testing.T) {
	const prefix = "app/"
	n, _ := withUsers(t, prefix, testbed.Options{Args: []string{"--bcrypt-cost=4"}})
	printed := captureStderr(t)
	for what, c := range map[string]struct {
		o    Options
		want error
	}{
		"wrong password": {Options{Endpoints: []string{n.URL()}, Username: "app", Password: secret + "x"}, backend.ErrDenied},
		"no such user":   {Options{Endpoints: []string{n.URL()}, Username: "unknown", Password: secret}, backend.ErrDenied},
		"no user":        {Options{Endpoints: []string{n.URL()}}, backend.ErrDenied},
		"wrong prefix":   {Options{Endpoints: []string{n.URL()}, Username: "app", Password: secret, Prefix: "other/"}, backend.ErrDenied},
		"unreachable":    {Options{Endpoints: []string{"127.0.0.1:1"}, Username: "app", Password: secret}, backend.ErrUnavailable},
		"no such host":   {Options{Endpoints: []string{"nowhere.invalid:1"}, Username: "app", Password: secret}, backend.ErrUnavailable},
		"no such port":   {Options{Endpoints: []string{"127.0.0.1:70000"}, Username: "app", Password: secret}, backend.ErrInvalid},
		"in the URL":     {Options{Endpoints: []string{"http://app:" + secret + "@" + n.Addr()}}, backend.ErrInvalid},
	} {
		if c.o.Prefix == "" {
			c.o.Prefix = prefix
		}
		b, err := Open(c.o)
		if err == nil {
			limit := patience
			if c.want == backend.ErrUnavailable { // the call ends only with its context
				limit = 2 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			_, err = b.Observe(ctx, []backend.Lease{{Election: "a"}})
			cancel()
			b.Close()
		}
		if err == nil || backend.Class(err) != c.want {
			t.Errorf("%s: %v; want class %v", what, err, c.want)
		}
		if s := fmt.Sprintf("%v %+v %#v %s", err, err, err, errors.Unwrap(err)); strings.Contains(s, "canary") {
			t.Errorf("%s: the error shows the password: %s", what, s)
		}
	}
	if text := printed(); text != "" {
		t.Errorf("the backend printed: %s", text)
	}
}

// captureStderr returns a function that returns what was written to stderr until then.
func captureStderr(t *testing.T) func() string {
	t.Helper()
	r, w, err := os.Pipe()
	testbed.NoError(t, err)
	old := os.Stderr
	os.Stderr = w
	return func() string {
		os.Stderr = old
		w.Close()
		text, _ := io.ReadAll(r)
		return string(text)
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	testbed.NoError(t, os.WriteFile(empty, nil, 0o600))
	good := []string{"127.0.0.1:2379"}
	for what, o := range map[string]Options{
		"nothing":             {},
		"no slash at the end": {Endpoints: good, Prefix: "app"},
		"control character":   {Endpoints: good, Prefix: "a\nb/"},
		"long prefix":         {Endpoints: good, Prefix: strings.Repeat("a", 255) + "/"},
		"password alone":      {Endpoints: good, Password: secret},
		"user alone":          {Endpoints: good, Username: "app"},
		"no such file":        {Endpoints: good, CAFile: filepath.Join(dir, "none.pem")},
		"empty file":          {Endpoints: good, CAFile: empty},
		"certificate alone":   {Endpoints: good, CertFile: empty},
		"not a certificate":   {Endpoints: good, CertFile: empty, KeyFile: empty},
		"TLS twice":           {Endpoints: good, CAFile: empty, TLS: &tls.Config{}},
		"TLS and http":        {Endpoints: []string{"http://127.0.0.1:2379"}, TLS: &tls.Config{}},
		"http beside HTTPS":   {Endpoints: []string{"http://127.0.0.1:2379", "HTTPS://127.0.0.2:2379"}},
		"a scheme":            {Endpoints: []string{"ftp://127.0.0.1:2379"}},
		"a path":              {Endpoints: []string{"http://127.0.0.1:2379/x"}},
		"no host":             {Endpoints: []string{"http://"}},
		"no port":             {Endpoints: []string{"etcd1"}},
		"no port, with TLS":   {Endpoints: []string{"https://etcd1/"}},
		"an empty port":       {Endpoints: []string{"127.0.0.1:2379", "http://etcd2:"}},
		"client and more":     {Client: clientv3.NewCtxClient(t.Context()), Endpoints: good},
	} {
		b, err := Open(o)
		if err == nil {
			b.Close()
		}
		if !errors.Is(err, backend.ErrInvalid) || !strings.HasPrefix(fmt.Sprint(err), "etcd: ") || strings.Contains(fmt.Sprint(err), secret) {
			t.Errorf("%s: %v; want ErrInvalid", what, err)
		}
	}
}

// After Close there is no goroutine, no connection, and no session if nothing is held. A client from the options stays open.
func TestCloseLeavesNothingBehind(t *testing.T) {
	n := testbed.StartEtcd(t, testbed.Options{})
	admin := dial(t, n.URL())
	admin.Get(t.Context(), "warm")
	before := runtime.NumGoroutine()
	for i, o := range []Options{options(n.URL()), {Client: admin, Prefix: "own/"}} {
		a := openNode(t, "a", o)
		held := a.Leads("jobs")
		returned := a.listenAsync(a.Sees("jobs"))
		a.Resigns(held)
		<-returned
		if err := errors.Join(a.Close(), a.Close()); err != nil {
			t.Errorf("%d: %v", i, err)
		}
		sessions, err := admin.Get(t.Context(), o.Prefix+"session/", clientv3.WithPrefix())
		if err != nil || len(sessions.Kvs) != 0 {
			t.Errorf("%d: sessions after Close: %v, %v", i, sessions, err)
		}
		testbed.Eventually(t, patience, "the goroutines have ended", func() error {
			if now := runtime.NumGoroutine(); now > before+2 {
				return fmt.Errorf("%d, %d before", now, before)
			}
			return nil
		})
	}
}
