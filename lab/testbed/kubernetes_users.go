package testbed

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A kubeconfig is the file in which clients find the API server and their credentials.
// The testbed writes JSON, which is also YAML.
type kubeconfig struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Current    string        `json:"current-context"`
	Clusters   []kubeEntry   `json:"clusters"`
	Users      []kubeEntry   `json:"users"`
	Contexts   []kubeContext `json:"contexts"`
}

type kubeEntry struct {
	Name    string       `json:"name"`
	Cluster *kubeCluster `json:"cluster,omitempty"`
	User    *kubeUser    `json:"user,omitempty"`
}

type kubeContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

type kubeCluster struct {
	Server     string `json:"server"`
	ServerName string `json:"tls-server-name,omitempty"`
	CA         []byte `json:"certificate-authority-data,omitempty"`
	CAFile     string `json:"certificate-authority,omitempty"`
}

// A kubeUser has a certificate or a token.
type kubeUser struct {
	Cert     []byte   `json:"client-certificate-data,omitempty"`
	CertFile string   `json:"client-certificate,omitempty"`
	Key      []byte   `json:"client-key-data,omitempty"`
	KeyFile  string   `json:"client-key,omitempty"`
	Token    string   `json:"token,omitempty"`
	As       string   `json:"as,omitempty"`
	AsGroups []string `json:"as-groups,omitempty"`
}

// Kubeconfig writes a file for a user in these groups, and returns its name. The user has a
// client certificate. With ELECTION_TEST_KUBECONFIG the administrator impersonates the user.
func (k *KubernetesServer) Kubeconfig(t testing.TB, user string, groups ...string) (file string) {
	t.Helper()
	if k.options.ca == nil {
		u := k.admin
		u.As, u.AsGroups = user, groups
		return writeKubeconfig(t, k.cluster, u)
	}
	u, err := k.options.ca.user(t.TempDir(), user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return writeKubeconfig(t, k.cluster, u)
}

// TokenKubeconfig is Kubeconfig for a service account, which authenticates itself by a
// token: see [KubernetesServer.ServiceAccount].
func (k *KubernetesServer) TokenKubeconfig(t testing.TB, token string) (file string) {
	t.Helper()
	return writeKubeconfig(t, k.cluster, kubeUser{Token: token})
}

// AdminKubeconfig writes a file for a user who has all rights.
func (k *KubernetesServer) AdminKubeconfig(t testing.TB) (file string) {
	t.Helper()
	return writeKubeconfig(t, k.cluster, k.admin)
}

// KubeconfigAt copies a file that the testbed wrote, for clients that reach the API server
// at another host and port, such as that of a [Proxy].
func KubeconfigAt(t testing.TB, file, addr string) string {
	t.Helper()
	cluster, user, err := readKubeconfig(file)
	if err != nil {
		t.Fatal(err)
	}
	if u, err := url.Parse(cluster.Server); err == nil && cluster.ServerName == "" {
		cluster.ServerName = u.Hostname() // which the certificate is for
	}
	cluster.Server = "https://" + addr
	return writeKubeconfig(t, cluster, user)
}

// ServiceAccount makes a service account unless it exists, and returns the name of its
// user, for Allow, and a new token, which is valid for an hour. The token no longer is if
// the service account is deleted or the store replaced.
func (k *KubernetesServer) ServiceAccount(t testing.TB, namespace, name string) (user, token string) {
	t.Helper()
	k.Apply(t, namespace, fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s}}", name))
	var granted struct {
		Status struct{ Token string }
	}
	k.Request(t, http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 3600},
	}, &granted)
	return "system:serviceaccount:" + namespace + ":" + name, granted.Status.Token
}

// user makes a client certificate.
func (a *authority) user(dir, name string, groups ...string) (u kubeUser, err error) {
	cert, key, err := a.client(dir, name, groups...)
	if err != nil {
		return u, err
	}
	if u.Cert, err = os.ReadFile(cert); err == nil {
		u.Key, err = os.ReadFile(key)
	}
	return u, err
}

func writeKubeconfig(t testing.TB, cluster kubeCluster, user kubeUser) string {
	t.Helper()
	const name = "testbed"
	context := kubeContext{Name: name}
	context.Context.Cluster, context.Context.User = name, name
	text, err := json.MarshalIndent(kubeconfig{
		APIVersion: "v1", Kind: "Config", Current: name,
		Clusters: []kubeEntry{{Name: name, Cluster: &cluster}},
		Users:    []kubeEntry{{Name: name, User: &user}},
		Contexts: []kubeContext{context},
	}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// runningKubernetes returns the API server of the current context of a file.
func runningKubernetes(file string) (*KubernetesServer, error) {
	k := &KubernetesServer{}
	var err error
	if k.cluster, k.admin, err = readKubeconfig(file); err != nil {
		return nil, fmt.Errorf("the file that %s names: %w", Kubernetes.variable(), err)
	}
	u, err := url.Parse(k.cluster.Server)
	if err != nil || u.Scheme != "https" {
		return nil, fmt.Errorf("the file that %s names: the server is not an https:// URL", Kubernetes.variable())
	}
	addr := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
	k.Daemon = &Daemon{options: daemonOptions{kind: Kubernetes, addr: addr}}
	k.client, err = k.cluster.client(k.admin)
	return k, err
}

// readKubeconfig reads the current context of a file, and the files that it names.
// Errors have no credentials.
func readKubeconfig(file string) (cluster kubeCluster, user kubeUser, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return cluster, user, err
	}
	var tree map[string]any
	if yaml.Unmarshal(text, &tree) != nil {
		return cluster, user, errors.New("it is not YAML")
	}
	text, err = json.Marshal(tree)
	if err != nil {
		return cluster, user, err
	}
	var c kubeconfig
	if json.Unmarshal(text, &c) != nil {
		return cluster, user, errors.New("it is not a kubeconfig")
	}
	for _, context := range c.Contexts {
		for _, e := range c.Clusters {
			if context.Name == c.Current && e.Name == context.Context.Cluster && e.Cluster != nil {
				cluster = *e.Cluster
			}
		}
		for _, e := range c.Users {
			if context.Name == c.Current && e.Name == context.Context.User && e.User != nil {
				user = *e.User
			}
		}
	}
	if cluster.Server == "" || user.Token == "" && user.Cert == nil && user.CertFile == "" {
		return cluster, user, fmt.Errorf("context %q has no server, or no token and no client certificate", c.Current)
	}
	err = errors.Join(
		embed(&cluster.CA, &cluster.CAFile, file),
		embed(&user.Cert, &user.CertFile, file),
		embed(&user.Key, &user.KeyFile, file))
	return cluster, user, err
}

// embed reads the file name, which is relative to the kubeconfig, into data.
func embed(data *[]byte, name *string, kubeconfig string) (err error) {
	if *name == "" {
		return nil
	}
	if !filepath.IsAbs(*name) {
		*name = filepath.Join(filepath.Dir(kubeconfig), *name)
	}
	*data, err = os.ReadFile(*name)
	*name = ""
	return err
}

func (c *kubeCluster) tls() (*tls.Config, error) {
	config := &tls.Config{ServerName: c.ServerName, MinVersion: tls.VersionTLS12}
	if c.CA != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("the authority of the API server is not PEM")
		}
	}
	return config, nil
}

// client returns a client of HTTP that has the certificate of a user.
func (c *kubeCluster) client(u kubeUser) (*http.Client, error) {
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	if u.Cert != nil {
		pair, err := tls.X509KeyPair(u.Cert, u.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}, nil
}
