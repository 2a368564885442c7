package zookeeper

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A leader of many elections makes one request for each renewal, and a follower of all of them about one.
// (A busy machine may cause more.)
func TestRequestsOfIdleManagers(t *testing.T) {
	for _, elections := range []int{1, 500} {
		t.Run(fmt.Sprint(elections), func(t *testing.T) {
			t.Parallel()
			const ttl = 9 * time.Second
			o := Options{Servers: []string{testbed.StartZooKeeper(t, testbed.Options{}).Addr()}}
			for _, leads := range []bool{true, false} {
				drivertest.Settle(t, start(t, "", o).Backend, elections, ttl, leads)
			}
			testbed.Eventually(t, patience, "a while in which nothing else happens", func() error {
				began, before := time.Now(), received(t, o)
				<-time.After(2 * ttl)
				requests, passed := received(t, o)-before, time.Since(began)
				t.Logf("in %v a leader and a follower have sent %d requests", passed, requests)
				renewals := 2 + int(passed/(ttl/3))
				pings := 2 + int(passed/(20*time.Second/3)) // of a session of 20 s
				if most := 3*renewals + 2*pings; requests > most {
					return fmt.Errorf("want at most %d", most)
				}
				return nil
			})
		})
	}
}

// received returns how many requests the server has received.
func received(t testing.TB, o Options) int {
	t.Helper()
	d, err := newDriver(o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := d.srvr(t.Context(), o.Servers[0])
	n, notNumber := strconv.Atoi(find(regexp.MustCompile(`Received: (\d+)`), text))
	if err != nil || notNumber != nil {
		t.Fatalf("srvr says %q: %v", text, err)
	}
	return n
}
