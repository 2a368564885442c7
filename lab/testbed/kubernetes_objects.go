package testbed

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// kubernetesPaths says where the objects of a kind are, in a namespace.
var kubernetesPaths = map[string]string{
	"Namespace":      "/api/v1/namespaces",
	"Pod":            "/api/v1/namespaces/%s/pods",
	"ServiceAccount": "/api/v1/namespaces/%s/serviceaccounts",
	"Role":           "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles",
	"RoleBinding":    "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
}

// Apply creates or updates objects of some kinds in a namespace, as the administrator. Each text is YAML or
// JSON, with one object or several documents. Roles and bindings take effect some moments later.
func (k *KubernetesServer) Apply(t testing.TB, namespace string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for documents := yaml.NewDecoder(strings.NewReader(text)); ; {
			var object map[string]any
			if err := documents.Decode(&object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("testbed: apply an object: %v\n%s", err, text)
			}
			if object == nil {
				continue
			}
			kind, _ := object["kind"].(string)
			path := strings.Replace(kubernetesPaths[kind], "%s", namespace, 1)
			meta, _ := object["metadata"].(map[string]any)
			path = fmt.Sprintf("%s/%v?fieldManager=testbed&force=true", path, meta["name"])
			k.Request(t, http.MethodPatch, path, object, nil)
		}
	}
}

// Namespace makes a namespace with a new name.
func (k *KubernetesServer) Namespace(t testing.TB) (name string) {
	t.Helper()
	name = "test-" + random()
	k.Apply(t, "", fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name))
	return name
}

// ServiceAccount makes a service account unless it exists, and returns the name of its user and a new token.
// The token is valid for an hour, unless the service account is deleted or the store replaced.
func (k *KubernetesServer) ServiceAccount(t testing.TB, namespace, name string) (user, token string) {
	t.Helper()
	k.Apply(t, namespace, fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s}}", name))
	var granted struct {
		Status struct{ Token string }
	}
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + name + "/token"
	hour := map[string]any{"spec": map[string]any{"expirationSeconds": 3600}}
	k.Request(t, http.MethodPost, path, hour, &granted)
	return "system:serviceaccount:" + namespace + ":" + name, granted.Status.Token
}

// Kubeconfig writes a file for a user in these groups, who has a client certificate.
func (k *KubernetesServer) Kubeconfig(t testing.TB, user string, groups ...string) (file string) {
	t.Helper()
	cert, key := k.ca.client(t.TempDir(), user, time.Time{}, groups...)
	return k.kubeconfig(t, fmt.Sprintf(`{"client-certificate": %q, "client-key": %q}`, cert, key))
}

// AdminKubeconfig writes a file for a user who has all rights.
func (k *KubernetesServer) AdminKubeconfig(t testing.TB) (file string) {
	t.Helper()
	return k.Kubeconfig(t, "testbed", administrators)
}

// TokenKubeconfig is Kubeconfig for a service account, which authenticates itself by a
// token: see [KubernetesServer.ServiceAccount].
func (k *KubernetesServer) TokenKubeconfig(t testing.TB, token string) (file string) {
	t.Helper()
	return k.kubeconfig(t, fmt.Sprintf(`{"token": %q}`, token))
}

// kubeconfig writes the file in which clients find the API server and their credentials, in JSON.
func (k *KubernetesServer) kubeconfig(t testing.TB, user string) (file string) {
	t.Helper()
	ca, err := os.ReadFile(k.CAFile())
	NoError(t, err)
	return writeKubeconfig(t, fmt.Appendf(nil, `{
	"apiVersion": "v1", "kind": "Config", "current-context": "testbed",
	"contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "testbed"}}],
	"clusters": [{"name": "testbed", "cluster": {"server": %q, "certificate-authority-data": %q}}],
	"users": [{"name": "testbed", "user": %s}]
}
`, k.URL(), base64.StdEncoding.EncodeToString(ca), user))
}

var kubeServer = regexp.MustCompile(`https://[^"]*`)

// KubeconfigAt copies a file that the testbed wrote, for clients that reach the API server
// through a proxy, or another one.
func KubeconfigAt(t testing.TB, file, addr string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	NoError(t, err)
	return writeKubeconfig(t, kubeServer.ReplaceAll(text, []byte("https://"+addr)))
}

func writeKubeconfig(t testing.TB, text []byte) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "kubeconfig")
	NoError(t, os.WriteFile(file, text, 0o600))
	return file
}
