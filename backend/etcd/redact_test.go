package etcd

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
)

// The error of a late call may contain a token that was replaced meanwhile.
func TestReplacedTokensStayOutOfErrors(t *testing.T) {
	d := &driver{login: &login{username: "app"}}
	d.login.password.Set("open sesame")
	for _, token := range []string{"first.token", "", "second.token", "third.token"} {
		d.login.token.Set(token)
	}
	err := d.fail(errors.New("refused: first.token second.token third.token open sesame"))
	for _, secret := range []string{"first.token", "second.token", "third.token", "open sesame"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q shows %q", err, secret)
		}
	}
	if !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("%v has lost its class", err)
	}
}
