package consul

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

func TestOptionsAreCheckedBeforeAnyRequest(t *testing.T) {
	secret := "hunter2-" + string(backend.NewNonce())
	nothing := filepath.Join(t.TempDir(), "token")
	fatal(t, os.WriteFile(nothing, []byte("\n"), 0o600))
	for what, o := range map[string]Options{
		"a token of two lines":       {Token: secret + "\nX-Other: " + secret},
		"nothing in the token file":  {TokenFile: nothing},
		"credentials in the address": {Address: "http://user:" + secret + "@localhost:8500"},
		"another scheme":             {Address: "ftp://localhost"},
		"not an address":             {Address: "http://%zz" + secret},
		"a socket without path":      {Address: "unix://"},
		"a slash":                    {Prefix: "a/"},
		"a control character":        {Prefix: "a\x00b"},
		"two tokens":                 {Token: secret, TokenFile: "/x"},
		"no token file":              {TokenFile: "/does/not/exist"},
		"no authorities":             {Address: "https://localhost", CAFile: "/does/not/exist"},
		"half a certificate":         {Address: "https://localhost", CertFile: "/x"},
		"TLS without https":          {Address: "http://localhost", CAFile: "/x"},
		"TLS twice":                  {Address: "https://localhost", CAFile: "/x", TLS: &tls.Config{}},
	} {
		b, err := Open(o)
		if !errors.Is(err, backend.ErrInvalid) || b != nil {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows a secret", what)
		}
	}
	if b, err := Open(Options{}); err != nil {
		t.Errorf("no options, and no agent: %v", err)
	} else {
		b.Close()
	}
}

// Open ignores the CONSUL_* variables: a program is configured in one place.
func TestTheEnvironmentIsNotRead(t *testing.T) {
	agent := testbed.SharedConsul(t)
	for name, value := range map[string]string{
		"CONSUL_HTTP_ADDR": "127.0.0.1:1", "CONSUL_HTTP_TOKEN": "00000000-dead-beef-0000-c0ffee000000", "CONSUL_HTTP_TOKEN_FILE": "/does/not/exist",
		"CONSUL_HTTP_SSL": "true", "CONSUL_NAMESPACE": "other", "CONSUL_PARTITION": "other", "CONSUL_CACERT": "/does/not/exist",
	} {
		t.Setenv(name, value)
	}
	prefix := "env/" + string(backend.NewNonce())
	b := open(t, Options{Address: agent.URL(), Prefix: prefix})
	n := &node{Backend: b, t: t, me: backend.Candidate{ID: "n", Nonce: backend.NewNonce()}, ttl: labTTL}
	n.release(backend.Released, n.win("x"))
	wipe(b.driver.Client, prefix)
}
