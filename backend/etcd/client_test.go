package etcd

import (
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
)

// FuzzEndpoint checks that errors show no part of an address that was not understood, since
// it may contain a password.
func FuzzEndpoint(f *testing.F) {
	for _, e := range []string{"", "a", "a:2379", "http://a", "https://a:2379/", "ftp://a", "http://u:open-sesame@a", "http://[::1", "://", "http://a/b?c#d", "http://\x7f", "unix:///x", "HTTP://a"} {
		f.Add(e, true)
		f.Add(e, false)
	}
	f.Fuzz(func(t *testing.T, e string, secure bool) {
		address, err := endpointURL(e, secure)
		if err != nil {
			if err := backend.CheckText("error", err.Error(), 1000, false); err != nil {
				t.Error(err)
			}
			if strings.Contains(err.Error(), "open-sesame") {
				t.Errorf("%v shows a password", err)
			}
			return
		}
		if !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") || secure && strings.HasPrefix(address, "http://") || strings.Contains(address, "@") {
			t.Errorf("%q becomes %q", e, address)
		}
		if again, err := endpointURL(address, secure); err != nil || again != address {
			t.Errorf("%q becomes %q, and that %q, %v", e, address, again, err)
		}
	})
}
