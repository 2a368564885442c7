package kubernetes

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	api "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

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

	for what, c := range map[string]struct {
		kubeconfig, file string
		before, after    []byte
	}{
		"a token":     {kubeconfig, kubeconfig, bytes.Replace(withToken, []byte(token), []byte("canary7f3a"), 1), withToken},
		"authorities": {named, caFile, read(testbed.StartEtcd(t, testbed.Options{TLS: true}).CAFile()), ca},
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
		if err := observe(); !errors.Is(err, backend.ErrDenied) {
			t.Errorf("%s of before: %v; want ErrDenied", what, err)
		}
		testbed.NoError(t, os.WriteFile(c.file, c.after, 0o600))
		observe() // is refused, and reads the files again
		if err := observe(); err != nil {
			t.Errorf("%s were replaced: %v", what, err)
		}
	}
}

// The name of the API server has several addresses, all but the last of which drop packets.
func TestANameWithADeadAddressIsReached(t *testing.T) {
	if !drivertest.InWorldOfManyAddresses(t) {
		return
	}
	l := newLab(t, testbed.StartKubernetes(t, testbed.Options{}))
	config, err := clientcmd.BuildConfigFromFlags("", l.file)
	testbed.NoError(t, err)
	real, err := url.Parse(config.Host)
	testbed.NoError(t, err)
	config.Host, config.ServerName = "https://"+drivertest.AtManyAddresses(t, real.Host), real.Hostname()

	b, err := Open(Options{Config: config, Namespace: l.namespace})
	testbed.NoError(t, err)
	n := newNode(t, b, "n")
	n.Limit = 5 * time.Second // as of a manager with a TTL of 15 s
	n.Leads("jobs")
}
