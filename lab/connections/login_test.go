package connections

import (
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A server may take long to let a connection in: it looks up the client's name, asks a directory about the password, or
// has many logins to do. The connection is waited for, though no call is.
func TestALoginThatTakesLongIsWaitedFor(t *testing.T) {
	testbed.Full(t, "waits for logins")
	t.Parallel()
	for _, name := range []string{"mysql", "postgres"} { // no other server asks anybody
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stores[name](t)
			proxy := testbed.NewProxy(t, s.addr)
			proxy.DelayLogins(7 * time.Second)
			b, err := s.open(proxy.Addr())
			lead(t, join(t, "a", 10*time.Second, b, err))
		})
	}
}
