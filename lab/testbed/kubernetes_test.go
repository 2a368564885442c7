//go:build linux

package testbed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s"

// leaseVerbs are what a candidate does.
var leaseVerbs = []string{"get", "create", "update"}

// clientOf returns the API server as a user of a kubeconfig sees it.
func clientOf(t *testing.T, kubeconfig string) *KubernetesServer {
	t.Helper()
	var said struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Token string
				Cert  string `json:"client-certificate"`
				Key   string `json:"client-key"`
			}
		}
	}
	text, err := os.ReadFile(kubeconfig)
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil {
		t.Fatal(err)
	}
	cluster, user := said.Clusters[0].Cluster, said.Users[0].User
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(cluster.CA) {
		t.Fatal("the authority is not PEM")
	}
	if user.Token == "" {
		pair, err := tls.LoadX509KeyPair(user.Cert, user.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	addr := strings.TrimPrefix(cluster.Server, "https://")
	return &KubernetesServer{
		Daemon: &Daemon{options: daemonOptions{addr: addr, ca: &authority{}}},
		client: &http.Client{Transport: bearer{&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, user.Token}},
	}
}

// A bearer adds a token to each request.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.RoundTripper.RoundTrip(r)
}

// makeLease creates a Lease object as the user of k.
func makeLease(ctx context.Context, k *KubernetesServer, namespace, name string) error {
	object := map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": name}}
	return k.Try(ctx, http.MethodPost, strings.TrimSuffix(fmt.Sprintf(leasesPath, namespace, ""), "/"), object, nil)
}

// exists returns an error unless the object exists, or does not, as wanted.
func exists(ctx context.Context, k *KubernetesServer, want bool, namespace, name string) error {
	err := k.Try(ctx, http.MethodGet, fmt.Sprintf(leasesPath, namespace, name), nil, nil)
	if want || err != nil && !strings.Contains(err.Error(), "404: ") {
		return err
	}
	if err == nil {
		return fmt.Errorf("%s exists", name)
	}
	return nil
}

// The server reports the version that it was built from.
func TestKubernetesTellsItsVersion(t *testing.T) {
	k := SharedKubernetes(t)
	var version struct{ GitVersion, Major, Minor string }
	k.Request(t, http.MethodGet, "/version", nil, &version)
	if k.Version() != "" && version.GitVersion != "v"+k.Version() {
		t.Errorf("version %+v, want %s", version, k.Version())
	}
}

// A user with a certificate, one in a group, and a service account with a token have the
// rights that they were given, in that namespace, and no others.
func TestKubernetesUsersHaveTheRightsGiven(t *testing.T) {
	t.Parallel()
	k := SharedKubernetes(t)
	here, other := k.Namespace(t), k.Namespace(t)

	alice := clientOf(t, k.Kubeconfig(t, "alice"))
	if err := makeLease(t.Context(), alice, here, "before"); err == nil || !strings.Contains(err.Error(), "403: ") {
		t.Errorf("without rights: %v, want 403", err)
	}
	k.AllowLeases(t, here, "alice", leaseVerbs)

	account, token := k.ServiceAccount(t, here, "app")
	k.AllowLeases(t, here, account, leaseVerbs)
	robot := clientOf(t, k.TokenKubeconfig(t, token))

	k.Apply(t, here, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: electors}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: electors}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: electors}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: electors}]
`)
	bob := clientOf(t, k.Kubeconfig(t, "bob", "electors"))
	Eventually(t, startLimit, "the group has its rights", func() error { return makeLease(t.Context(), bob, here, "bob") })

	for name, user := range map[string]*KubernetesServer{"alice": alice, "robot": robot} {
		if err := makeLease(t.Context(), user, here, name); err != nil {
			t.Errorf("%s, in the namespace with rights: %v", name, err)
		}
		if err := makeLease(t.Context(), user, other, name); err == nil || !strings.Contains(err.Error(), "403: ") {
			t.Errorf("%s, in another namespace: %v, want 403", name, err)
		}
	}

	if err := makeLease(t.Context(), clientOf(t, k.TokenKubeconfig(t, "no-such-token")), here, "x"); err == nil || !strings.Contains(err.Error(), "401: ") {
		t.Errorf("with a token that nobody gave: %v, want 401", err)
	}
}

// After a kill and a start, the server has what it had. While it is frozen, it does not
// answer. A proxy can stand between it and a client.
func TestKubernetesAnswersAndComesBack(t *testing.T) {
	t.Parallel()
	k := StartKubernetes(t, KubernetesOptions{})
	if err := makeLease(t.Context(), k, "default", "kept"); err != nil {
		t.Fatal(err)
	}
	k.Kill(t)
	k.Start(t)
	throughProxy := clientOf(t, KubeconfigAt(t, k.AdminKubeconfig(t), k.Proxy(t).Addr()))
	if err := exists(t.Context(), throughProxy, true, "default", "kept"); err != nil {
		t.Errorf("after a restart, through a proxy: %v", err)
	}
	k.Stop(t)
	answered := make(chan error, 1)
	go func() { answered <- exists(t.Context(), k, true, "default", "kept") }()
	select {
	case err := <-answered:
		t.Errorf("a frozen server answered: %v", err)
	default:
	}
	k.Continue(t)
	if err := <-answered; err != nil {
		t.Errorf("after it was frozen: %v", err)
	}
	k.Terminate(t)
	k.Start(t)
}

// Two API servers over one store know the same objects and users. When etcd is dead, both
// refuse writes. When the store goes back, so does what they know.
func TestKubernetesGoesBackWithItsStore(t *testing.T) {
	t.Parallel()
	k := StartKubernetes(t, KubernetesOptions{})
	if err := makeLease(t.Context(), k, "default", "early"); err != nil {
		t.Fatal(err)
	}
	saved := k.SaveStore(t)
	if err := makeLease(t.Context(), k, "default", "late"); err != nil {
		t.Fatal(err)
	}

	second := StartKubernetes(t, KubernetesOptions{Beside: k})
	k.Kill(t)
	elsewhere := clientOf(t, KubeconfigAt(t, k.AdminKubeconfig(t), second.Addr()))
	if err := exists(t.Context(), elsewhere, true, "default", "late"); err != nil {
		t.Errorf("another API server, as the administrator of the first: %v", err)
	}
	k.Etcd().Kill(t)
	soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := makeLease(soon, second, "default", "never"); err == nil {
		t.Error("the API server wrote to an etcd that was dead")
	}
	k.Etcd().Start(t)
	second.Kill(t)
	k.Start(t)

	k.RestoreStore(t, saved)
	if err := exists(t.Context(), k, true, "default", "early"); err != nil {
		t.Errorf("what the saved store has: %v", err)
	}
	if err := exists(t.Context(), k, false, "default", "late"); err != nil {
		t.Errorf("what was created after the store was saved: %v", err)
	}
	k.RestoreStore(t, "")
	if err := exists(t.Context(), k, false, "default", "early"); err != nil {
		t.Errorf("in an empty store: %v", err)
	}
}

// With one request in flight at a time, others are refused.
func TestKubernetesThrottles(t *testing.T) {
	t.Parallel()
	k := StartKubernetes(t, KubernetesOptions{Args: []string{
		"--enable-priority-and-fairness=false", "--max-requests-inflight=1", "--max-mutating-requests-inflight=1",
	}})
	k.AllowLeases(t, "default", "alice", leaseVerbs) // the administrator's group is never throttled
	alice := clientOf(t, k.Kubeconfig(t, "alice"))
	Eventually(t, startLimit, "a request is refused", func() error {
		refused := make(chan bool)
		for i := range 20 {
			go func() {
				err := makeLease(t.Context(), alice, "default", fmt.Sprint("lease-", i))
				refused <- err != nil && strings.Contains(err.Error(), "429: ")
			}()
		}
		var all []bool
		for range 20 {
			all = append(all, <-refused)
		}
		if !slices.Contains(all, true) {
			return fmt.Errorf("none of 20 was")
		}
		return nil
	})
}
