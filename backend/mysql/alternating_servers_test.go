package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

func TestAlternatingServersAreDetected(t *testing.T) {
	for n := 2; n <= maxServers; n++ {
		var s servers
		now := time.Now()
		for i := range n {
			if _, err := s.recordAnswer(fmt.Sprint("server ", i), maxTTL, now.Add(time.Duration(i)*time.Millisecond)); err != nil {
				t.Fatalf("%d servers, each seen once: %v, want no error: these are failovers", n, err)
			}
		}
		_, err := s.recordAnswer("server 0", maxTTL, now.Add(time.Second))
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), `"server 0"`) || !strings.Contains(err.Error(), fmt.Sprintf("%q", fmt.Sprint("server ", n-1))) {
			t.Errorf("%d servers in round robin: %v; want ErrDenied, with the last two names", n, err)
		}
	}
}

func TestAServerMayComeBackAfterTheGreatestTTL(t *testing.T) {
	var s servers
	now := time.Now()
	for i, id := range []string{"P", "Q", "R", "P", "R", "Q"} {
		if _, err := s.recordAnswer(id, maxTTL, now.Add(time.Duration(i)*maxTTL)); err != nil {
			t.Errorf("%s, %v after the one before: %v", id, maxTTL, err)
		}
	}
}

func TestReplacedServersTakeBoundedSpace(t *testing.T) {
	var s servers
	now := time.Now()
	for i := range 10 * maxServers {
		s.recordAnswer(fmt.Sprint(i), maxTTL, now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(s.replaced) > maxServers {
		t.Errorf("%d servers are remembered, at most %d should be", len(s.replaced), maxServers)
	}
	if _, err := s.recordAnswer(fmt.Sprint(10*maxServers-2), maxTTL, now.Add(time.Second)); err == nil {
		t.Error("the servers that were replaced last must be remembered")
	}
}
