package kubernetes

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/go-election/go-election/lab/testbed"
)

// In a pod nothing is configured: server, namespace, account and token come from where the kubelet puts them.
func TestAPodNeedsNoConfiguration(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("it mounts what a pod has, which needs root")
	}
	k := testbed.SharedKubernetes(t)
	l := newLab(t, k)
	user, token := k.ServiceAccount(t, l.namespace, "app")
	l.allow(t, user, []string{"get", "list", "watch", "create", "update", "delete"})
	config, err := clientcmd.BuildConfigFromFlags("", k.TokenKubeconfig(t, token))
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"token": token, "ca.crt": string(config.CAData), "namespace": l.namespace} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	arg, err := json.Marshal(part{Election: "jobs", ID: "pod-1"})
	if err != nil {
		t.Fatal(err)
	}
	const account = "/run/secrets/kubernetes.io/serviceaccount"
	cmd := exec.Command("unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /run && mkdir -p "+account+" && cp "+dir+"/* "+account+" && exec "+os.Args[0])
	cmd.Env = append(os.Environ(), memberArg+"="+string(arg), "KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	m := testbed.StartMember(t, "pod-1", cmd)
	m.Says("leader")
	if lease, err := l.admin.Get(t.Context(), "jobs", meta.GetOptions{}); err != nil || holder(&lease.Spec) != "pod-1" {
		t.Errorf("the Lease in the pod's namespace is held by %+v (%v); want pod-1", lease.Spec.HolderIdentity, err)
	}
}
