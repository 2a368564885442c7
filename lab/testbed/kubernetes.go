package testbed

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// A KubernetesServer is one kube-apiserver, with RBAC and with priority and fairness. The methods of Daemon,
// such as Kill, concern only the API server; those of Etcd concern its store. There are no controllers:
// nothing collects garbage, and a namespace that is deleted stays in state Terminating.
type KubernetesServer struct {
	*Daemon
	etcd *Daemon
}

// administrators is the group that may do everything.
const administrators = "system:masters"

// StartKubernetes starts an API server over an etcd of its own for this test, and stops both after the test.
// It takes some seconds of a processor, and some hundred MB of memory.
func StartKubernetes(t testing.TB, o Options) *KubernetesServer {
	t.Helper()
	return startOwn(t, func() *KubernetesServer { return startKubernetes(o, nil) })
}

// StartBeside starts another API server over the same etcd, with the same authority and keys: what one of
// them grants, the other accepts.
func (k *KubernetesServer) StartBeside(t testing.TB) *KubernetesServer {
	t.Helper()
	return startOwn(t, func() *KubernetesServer { return startKubernetes(Options{}, k) })
}

// SharedKubernetes returns the API server that all tests of the binary share. Each takes its own namespace.
var SharedKubernetes = share(func() *KubernetesServer { return startKubernetes(Options{}, nil) })

func startKubernetes(o Options, beside *KubernetesServer) *KubernetesServer {
	program, version := built(Kubernetes, "*", "kube-apiserver", "internal/tools/kube-apiserver")
	k := &KubernetesServer{Daemon: newDaemon(Kubernetes, version, Options{TLS: beside == nil})}
	if beside != nil {
		k.etcd, k.ca = beside.etcd, beside.ca
	} else {
		k.etcd = startEtcd(Options{})
		k.close = k.etcd.remove
	}
	cert, key := k.ca.client(k.dir, "testbed", time.Time{}, administrators)
	k.certs = []tls.Certificate{must(tls.LoadX509KeyPair(cert, key))}
	k.ready = func(ctx context.Context) error { // with the roles and namespaces of every cluster
		err := k.Try(ctx, http.MethodGet, "/readyz", nil, nil)
		if err == nil {
			err = k.Try(ctx, http.MethodGet, "/api/v1/namespaces/default", nil, nil)
		}
		return err
	}
	k.onPort(func(port int) []string { return append(k.options(program, port), o.Args...) })
	return k
}

// options returns the command. The key of the certificate also signs the tokens of service accounts.
func (k *KubernetesServer) options(program string, port int) []string {
	return []string{
		program, "--etcd-servers=" + k.etcd.URL(),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + k.ca.certFile, "--tls-private-key-file=" + k.ca.keyFile,
		"--client-ca-file=" + k.ca.file, "--authorization-mode=RBAC", "--anonymous-auth=false",
		"--service-account-issuer=https://testbed", "--service-account-key-file=" + k.ca.certFile,
		"--service-account-signing-key-file=" + k.ca.keyFile,
		"--service-cluster-ip-range=10.0.0.0/24", "--profiling=false",

		// Nothing here runs pods, so nobody needs the server's address in the cluster, and what checks pods.
		"--endpoint-reconciler-type=none",
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,PodSecurity,Priority," +
			"DefaultTolerationSeconds,RuntimeClass,DefaultStorageClass,StorageObjectInUseProtection," +
			"PersistentVolumeClaimResize,DefaultIngressClass,LimitRanger",
	}
}

// Etcd is the node that the API server keeps everything in. To kill it, start it again or replace its data
// ([Daemon.ReplaceData]) is to do so to the cluster.
func (k *KubernetesServer) Etcd() *Daemon { return k.etcd }

// WithoutServers does something to the data of etcd ([Daemon.SaveData], [Daemon.ReplaceData]), as an operator
// does after a loss: with both the API server and etcd down. Versions of objects go back with the data.
func (k *KubernetesServer) WithoutServers(t testing.TB, do func()) {
	t.Helper()
	k.Kill(t)
	k.etcd.Terminate(t)
	do()
	k.etcd.Start(t)
	k.Start(t)
}
