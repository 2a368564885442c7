package testbed

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// KubernetesOptions describe an API server to start. The zero value is one API server over
// an etcd of its own, with RBAC and with priority and fairness.
type KubernetesOptions struct {
	// Args are added to the end of the API server's command line, for example
	// --enable-priority-and-fairness=false and --max-mutating-requests-inflight=1.
	Args []string

	// EtcdArgs are added to the end of etcd's command line.
	EtcdArgs []string

	// Beside starts another API server over the etcd of this one, with the same
	// authority and keys: what one of them grants, the other accepts.
	Beside *KubernetesServer
}

// A KubernetesServer is one kube-apiserver. The methods of Daemon, such as Kill, concern
// only the API server; those of Etcd concern its store. There are no controllers: nothing
// collects garbage, and a namespace that is deleted stays in state Terminating.
type KubernetesServer struct {
	*Daemon
	etcd    *EtcdNode // nil: the testbed did not start it
	cluster kubeCluster
	admin   kubeUser
	client  *http.Client // of the administrator
}

// StartKubernetes starts an API server for this test and stops it after the test. It takes
// some seconds of a processor, and some hundred MB of memory. With ELECTION_TEST_KUBECONFIG
// set it skips the test.
func StartKubernetes(t testing.TB, o KubernetesOptions) *KubernetesServer {
	t.Helper()
	ownServer(t, Kubernetes, "starts its own server")
	k, err := startKubernetes(o)
	started(t, k, err)
	endWithTest(t, k.Daemon)
	if o.Beside == nil {
		endWithTest(t, k.etcd.Daemon)
	}
	return k
}

var sharedKubernetes = share(func() (*KubernetesServer, error) {
	if file := Kubernetes.named(); file != "" {
		return runningKubernetes(file)
	}
	return startKubernetes(KubernetesOptions{})
})

// SharedKubernetes returns the API server that all tests of the binary share, or the one
// of the current context in the file that ELECTION_TEST_KUBECONFIG names. Its user must
// have all rights. Tests must not inject faults into it. Each takes its own namespace.
func SharedKubernetes(t testing.TB) *KubernetesServer {
	t.Helper()
	return sharedKubernetes(t)
}

// share implements sharable.
func (k *KubernetesServer) share() {
	k.Daemon.share()
	if k.etcd != nil {
		k.etcd.share()
	}
}

func startKubernetes(o KubernetesOptions) (*KubernetesServer, error) {
	program, version, err := built(Kubernetes, "*", "kube-apiserver", "internal/tools/kube-apiserver")
	if err != nil {
		return nil, err
	}
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	k := &KubernetesServer{}
	d := daemonOptions{kind: Kubernetes, version: version, dir: dir, ready: k.ready}
	if o.Beside != nil {
		k.etcd, d.ca = o.Beside.etcd, o.Beside.options.ca
	} else {
		if d.ca, err = newAuthority(dir); err != nil {
			return nil, err
		}
		if k.etcd, err = startEtcd(EtcdOptions{Args: o.EtcdArgs}); err != nil {
			return nil, err
		}
	}
	k.Daemon, err = launchOnPort(func(port int) (daemonOptions, error) {
		d.addr, k.cluster.Server = loopback(port), "https://"+loopback(port)
		d.command = slices.Concat([]string{program}, k.args(d.ca, dir, port), o.Args)
		return d, k.administrate(d.ca, dir)
	})
	if err != nil && o.Beside == nil {
		k.etcd.remove()
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// administrate makes the administrator, whose group may do everything.
func (k *KubernetesServer) administrate(ca *authority, dir string) (err error) {
	if k.cluster.CA, err = os.ReadFile(ca.file("ca.pem")); err != nil {
		return err
	}
	if k.admin, err = ca.user(dir, "testbed", "system:masters"); err != nil {
		return err
	}
	k.client, err = k.cluster.client(k.admin)
	return err
}

// args returns the options of the API server. The key of its certificate also signs the
// tokens of service accounts.
func (k *KubernetesServer) args(ca *authority, dir string, port int) []string {
	return []string{
		"--etcd-servers=" + k.etcd.URL(),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir=" + dir,
		"--tls-cert-file=" + ca.file("server-cert.pem"), "--tls-private-key-file=" + ca.file("server-key.pem"),
		"--client-ca-file=" + ca.file("ca.pem"), "--authorization-mode=RBAC", "--anonymous-auth=false",
		"--service-account-issuer=https://testbed", "--service-account-key-file=" + ca.file("server-cert.pem"),
		"--service-account-signing-key-file=" + ca.file("server-key.pem"),
		"--service-cluster-ip-range=10.0.0.0/24",

		// Nothing here runs pods, so nobody needs the address of the API server in the cluster
		// and what checks pods.
		"--endpoint-reconciler-type=none",
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,PodSecurity,Priority,DefaultTolerationSeconds,RuntimeClass," +
			"DefaultStorageClass,StorageObjectInUseProtection,PersistentVolumeClaimResize,DefaultIngressClass,LimitRanger",
		"--profiling=false",
	}
}

// ready returns nil if the API server has the roles and the namespaces of every cluster,
// and reaches etcd.
func (k *KubernetesServer) ready(ctx context.Context) error {
	for _, path := range []string{"/readyz?verbose", "/api/v1/namespaces/default"} {
		status, text, err := k.send(ctx, http.MethodGet, path, "", nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("not ready: %d: %s", status, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends a request of the administrator, and returns the status and the body.
func (k *KubernetesServer) send(ctx context.Context, method, path, contentType string, body []byte) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, k.cluster.Server+path, strings.NewReader(string(body)))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Accept", "application/json")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if k.admin.Token != "" {
		request.Header.Set("Authorization", "Bearer "+k.admin.Token)
	}
	if k.admin.As != "" {
		request.Header.Set("Impersonate-User", k.admin.As)
		request.Header["Impersonate-Group"] = k.admin.AsGroups
	}
	answer, err := k.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 32<<20))
	return answer.StatusCode, text, err
}

// URL is where clients reach the API server: https://….
func (k *KubernetesServer) URL() string { return k.cluster.Server }

// Etcd is the node that the API server keeps everything in. It is nil if the environment
// names a running API server. To kill it, start it again or replace its data
// ([EtcdNode.ReplaceData]) is to do so to the cluster.
func (k *KubernetesServer) Etcd() *EtcdNode { return k.etcd }

// SaveStore copies everything that the API server keeps, for RestoreStore. Both the API
// server and etcd are restarted.
func (k *KubernetesServer) SaveStore(t testing.TB) (saved string) {
	t.Helper()
	k.withoutServers(t, func() { saved = k.etcd.SaveData(t) })
	return saved
}

// RestoreStore takes the cluster back to an earlier state, or with "" to that of a new
// cluster, as an operator does after a loss: with both the API server and etcd down.
// Versions of objects go back, too.
func (k *KubernetesServer) RestoreStore(t testing.TB, saved string) {
	t.Helper()
	k.withoutServers(t, func() { k.etcd.ReplaceData(t, saved) })
}

func (k *KubernetesServer) withoutServers(t testing.TB, do func()) {
	t.Helper()
	k.Kill(t)
	k.etcd.Terminate(t)
	do()
	k.etcd.Start(t)
	k.Start(t)
}
