package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/internal/client"
)

// A server opens connections, which are numbers.
type server struct {
	client.Pool[int]
	takes time.Duration // to open one
	down  error

	mu     sync.Mutex
	opened int
	closed []int
}

func (s *server) connect(context.Context) (int, error) {
	time.Sleep(s.takes)
	if s.down != nil {
		return 0, s.down
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return s.opened, nil
}

// withServer runs a test in virtual time.
func withServer(t *testing.T, test func(t *testing.T, s *server)) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: 10 * time.Millisecond}
		s.Age, s.Most, s.Open = time.Minute, 3, s.connect
		s.Close = func(c int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.closed = append(s.closed, c)
		}
		test(t, s)
		s.End()
		time.Sleep(time.Minute) // what is being opened is closed
	})
}

// takes takes a connection within a second.
func (s *server) take(t *testing.T, more bool) (*client.Conn[int], error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return s.Take(ctx, more)
}

func (s *server) mustTake(t *testing.T, more bool) *client.Conn[int] {
	t.Helper()
	c, err := s.take(t, more)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCallsShareOneConnection(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		for range 10 {
			go func() {
				c := s.mustTake(t, false)
				time.Sleep(20 * time.Millisecond)
				s.Give(c, false)
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s.opened != 1 {
			t.Errorf("ten calls opened %d connections, want 1", s.opened)
		}
	})
}

// A copy of a call that hangs does not wait for it, but no more than Most are opened. Those that are not needed any more
// are closed.
func TestACopyOpensAnotherConnection(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		var all []*client.Conn[int]
		for range s.Most {
			all = append(all, s.mustTake(t, true))
		}
		if _, err := s.take(t, true); !errors.Is(err, context.DeadlineExceeded) || s.opened != s.Most {
			t.Errorf("one more than Most: %v, %d connections", err, s.opened)
		}
		for _, c := range all {
			s.Give(c, false)
		}
		for range 20 {
			time.Sleep(5 * time.Second)
			s.Give(s.mustTake(t, false), false)
		}
		synctest.Wait()
		if left := s.opened - len(s.closed); left != 1 {
			t.Errorf("%d connections are left when one is used, want 1", left)
		}
	})
}

// Opening takes longer than a call. The next one has its connection.
func TestOpeningOutlivesItsCall(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		s.takes = 1500 * time.Millisecond
		if _, err := s.take(t, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a call of a second: %v", err)
		}
		s.Give(s.mustTake(t, false), false)
		if s.opened != 1 {
			t.Errorf("%d connections were opened, want 1", s.opened)
		}
	})
}

// One that hangs keeps no other from being opened.
func TestAHangingOpeningKeepsNoPlace(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		s.takes = 14 * time.Second
		s.take(t, false)
		time.Sleep(2 * time.Second)
		s.takes = 0
		s.Give(s.mustTake(t, false), false)
		time.Sleep(20 * time.Second)
	})
}

// An old connection is used on until its successor is open.
func TestAConnectionIsReplacedNotDropped(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		s.Give(s.mustTake(t, false), false)
		s.down = errors.New("too many connections")
		for range 100 {
			time.Sleep(3 * time.Second)
			c := s.mustTake(t, false)
			s.Give(c, false)
			if c.C != 1 {
				t.Fatalf("connection %d, want that which works", c.C)
			}
		}
		s.down = nil
		for range 3 {
			time.Sleep(6 * time.Second)
			s.Give(s.mustTake(t, false), false)
		}
		synctest.Wait()
		if c := s.mustTake(t, false); c.C != 2 || !slices.Equal(s.closed, []int{1}) {
			t.Errorf("connection %d is used, and %v are closed; want 2, and 1", c.C, s.closed)
		} else {
			s.Give(c, false)
		}
	})
}

// No connection can be opened. A call waits for that of another one, and fails when that is closed.
func TestACallWaitsForNoConnectionThatIsGone(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		used := s.mustTake(t, false)
		s.down = errors.New("too many connections")
		time.AfterFunc(500*time.Millisecond, func() { s.Give(used, false) })
		c := s.mustTake(t, true)
		began := time.Now()
		time.AfterFunc(500*time.Millisecond, func() { s.Give(c, true) })
		if _, err := s.take(t, true); err != s.down || time.Since(began) > 600*time.Millisecond {
			t.Errorf("%v after %v, want the error of opening when no connection is left", err, time.Since(began))
		}
	})
}

// What watches the connection gives it to calls, and has it again after them.
func TestACallTakesTheWatchedConnection(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		watched := 0
		ctx, cancel := context.WithCancel(t.Context())
		go s.Watch(ctx, func(ctx context.Context, _ int) error {
			watched++
			<-ctx.Done()
			return ctx.Err()
		})
		for range 5 {
			time.Sleep(time.Second)
			s.Give(s.mustTake(t, false), false)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if watched != 6 || s.opened != 1 {
			t.Errorf("watched %d times, over %d connections; want 6, over 1", watched, s.opened)
		}
		cancel()
	})
}

// After a move no connection of before is used.
func TestNoConnectionOfBeforeAMoveIsUsed(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		one, two := s.mustTake(t, true), s.mustTake(t, true)
		s.Give(one, false)
		s.Moved()
		s.Give(two, false)
		if c := s.mustTake(t, false); c.C != 3 {
			t.Errorf("connection %d is used after the move", c.C)
		} else {
			s.Give(c, false)
		}
	})
}

// No name of a program makes a server refuse a connection.
func TestNamesOfConnectionsFitAnyServer(t *testing.T) {
	name := client.Name()
	if len(name) > 60 || !strings.HasPrefix(name, "go-election/") || strings.ContainsAny(name, " ,:;'\"\n") {
		t.Errorf("the name is %q", name)
	}
}
