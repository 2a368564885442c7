package consul

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
)

// An aclToken is the ACL token, which may change in its file.
type aclToken struct {
	client.Secret
	file string // "": none
}

// anonymous is the token that the servers use for a request without one.
const anonymous = "anonymous"

// isToken reports whether the text can be sent in a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// reload reads the file, if there is one, for the next request. If it contains no token, for example
// while it is being written, the last one stays.
func (t *aclToken) reload() error {
	if t.file == "" {
		return nil
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return clean.FileError(err)
	}
	now := strings.TrimSpace(string(text))
	if !isToken(now) {
		return errors.New("it is empty, or has more than one line")
	}
	t.Set(now)
	return nil
}

// maxAnswer is the most that is read of one answer.
const maxAnswer = 256 << 20

// A transport adds the token to every request, so that the library and its errors never contain it.
// It removes what the library took from the environment, and bounds answers.
type transport struct {
	Next http.RoundTripper // tests replace it before the first request

	idle                 func() // closes idle connections
	token                *aclToken
	namespace, partition string
}

// RoundTrip implements [http.RoundTripper].
func (v *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if now := v.token.Get(); now != "" {
		r.Header.Set("X-Consul-Token", now)
	} else if r.Header.Get("X-Consul-Token") != anonymous {
		r.Header.Del("X-Consul-Token")
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", client.Name())
	}
	q := r.URL.Query()
	for name, value := range map[string]string{"ns": v.namespace, "partition": v.partition} {
		if value == "" && q.Has(name) {
			q.Del(name)
			r.URL.RawQuery = q.Encode()
		}
	}
	answer, err := v.Next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	status := answer.StatusCode
	if status == http.StatusForbidden {
		v.token.reload()
	}
	if strings.HasSuffix(r.URL.Path, "/v1/txn") && status != http.StatusOK && status != http.StatusConflict {
		defer answer.Body.Close() // the library would keep the code to itself, and a proxy may say no more than that
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return nil, api.StatusError{Code: status, Body: strings.TrimSpace(string(text))}
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	return answer, nil
}
