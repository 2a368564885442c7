package kubernetes

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"testing"

	api "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-election/go-election/backend"
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
