package client

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// The first name server is dead, which costs each lookup five seconds.
func TestANameWhoseFirstServerIsDeadIsReached(t *testing.T) {
	reached(t, 8*time.Second, func(ctx context.Context, _ time.Duration) string {
		select {
		case <-time.After(5 * time.Second):
			return "127.0.0.1"
		case <-ctx.Done():
			return ""
		}
	})
}

// A name leads to a host that has gone, and then elsewhere. The dial that is under way holds no call up for long.
func TestANameThatLeadsElsewhereIsFollowed(t *testing.T) {
	reached(t, 4*time.Second, func(_ context.Context, after time.Duration) string {
		if after < time.Second {
			return gone
		}
		return "127.0.0.1"
	})
}

// Packets to gone are dropped.
const gone = "127.0.0.9"

// reached dials a name in calls of a second, one after the other, and one must get a connection within limit.
func reached(t *testing.T, limit time.Duration, address func(ctx context.Context, after time.Duration) string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())

	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := &Dialer{lookup: func(ctx context.Context, _ string) ([]string, error) {
			at := address(ctx, time.Since(began))
			return []string{at}, ctx.Err()
		}, Dialer: net.Dialer{ControlContext: func(ctx context.Context, _, to string, _ syscall.RawConn) error {
			if strings.HasPrefix(to, gone) {
				<-ctx.Done()
			}
			return ctx.Err()
		}}}
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			c, err := d.DialContext(ctx, "tcp", net.JoinHostPort("store.test", port))
			cancel()
			switch {
			case err == nil:
				c.Close()
			case time.Since(began) > limit:
				t.Errorf("there is no connection after %v: %v", limit, err)
			default:
				continue
			}
			<-time.After(time.Minute) // until all dials have ended
			return
		}
	})
}

// A client of a cluster looks its names up one after the other, each time that it is to connect.
func TestThreeNamesAreLookedUpBesideADeadNameServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dialer{lookup: func(context.Context, string) ([]string, error) {
			<-time.After(5 * time.Second)
			return []string{"127.0.0.1"}, nil
		}}
		lookups := func() (err error) {
			ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
			defer cancel()
			for _, name := range []string{"a.test", "b.test", "c.test"} {
				if err == nil {
					_, err = d.LookupHost(ctx, name)
				}
			}
			return err
		}
		if first, second := lookups(), lookups(); second != nil {
			t.Errorf("the first time: %v; the second time: %v", first, second)
		}
		<-time.After(time.Minute) // until the answers are dropped
	})
}
