package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	s.mu.Lock()
	takes := s.takes
	s.mu.Unlock()
	time.Sleep(takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return 0, s.down
	}
	s.opened++
	return s.opened, nil
}

// becomes changes how the server opens connections.
func (s *server) becomes(takes time.Duration, down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.down = takes, down
}

var errFull = errors.New("too many connections")

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
		s.becomes(1500*time.Millisecond, nil)
		if _, err := s.take(t, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a call of a second: %v", err)
		}
		s.Give(s.mustTake(t, false), false)
		if s.opened != 1 {
			t.Errorf("%d connections were opened, want 1", s.opened)
		}
	})
}

// Opening takes long, as with a dead host before the one that works, and each call gives up before. A connection that comes
// late is used, though others are being opened.
func TestALateConnectionIsUsed(t *testing.T) {
	for takes := 500 * time.Millisecond; takes < 10*time.Second; takes += 250 * time.Millisecond {
		withServer(t, func(t *testing.T, s *server) {
			s.becomes(takes+time.Millisecond, nil)
			for range 20 { // calls of a second
				go func() {
					if c, err := s.take(t, true); err == nil {
						s.Give(c, false)
					}
				}()
				if c, err := s.take(t, true); err == nil {
					s.Give(c, false)
					return
				}
			}
			t.Errorf("opening takes %v, and no call has got a connection in 20 s", takes)
		})
	}
}

// One that hangs keeps no other from being opened.
func TestAHangingOpeningKeepsNoPlace(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		s.becomes(14*time.Second, nil)
		s.take(t, false)
		time.Sleep(3 * time.Second)
		s.becomes(0, nil)
		s.Give(s.mustTake(t, false), false)
		time.Sleep(20 * time.Second)
	})
}

// A server that is slow since many log in is not asked for more: for one connection while that is being opened, for a
// second one if the first takes long, and for no third.
func TestASlowServerIsNotAskedForMore(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		var begun atomic.Int32
		connect := s.Open
		s.Open = func(ctx context.Context) (int, error) {
			begun.Add(1)
			return connect(ctx)
		}
		s.becomes(13*time.Second, nil)
		for i, want := range []int32{1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2} {
			go s.take(t, true)
			s.take(t, true)
			if n := begun.Load(); n != want {
				t.Errorf("after call %d, of a second each, the server has %d logins to do, want %d", i+1, n, want)
			}
			time.Sleep(100 * time.Millisecond) // not at the instant at which the first one has taken long
		}
	})
}

// A call that has ended opens nothing.
func TestACallThatHasEndedOpensNothing(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Take(ctx, false); !errors.Is(err, context.Canceled) {
			t.Errorf("it has a connection: %v", err)
		}
		time.Sleep(time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.opened != 0 {
			t.Errorf("it has opened %d connections", s.opened)
		}
	})
}

// An old connection is used on until its successor is open.
func TestAConnectionIsReplacedNotDropped(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		s.Give(s.mustTake(t, false), false)
		s.becomes(0, errFull)
		for range 100 {
			time.Sleep(3 * time.Second)
			c := s.mustTake(t, false)
			s.Give(c, false)
			if c.C != 1 {
				t.Fatalf("connection %d, want that which works", c.C)
			}
		}
		s.becomes(0, nil)
		for range 3 {
			time.Sleep(6 * time.Second)
			s.Give(s.mustTake(t, false), false)
		}
		time.Sleep(time.Second)
		c := s.mustTake(t, false)
		defer s.Give(c, false)
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.C != 2 || !slices.Equal(s.closed, []int{1}) {
			t.Errorf("connection %d is used, and %v are closed; want 2, and 1", c.C, s.closed)
		}
	})
}

// No connection can be opened. A call waits for that of another one, and fails when that is closed.
func TestACallWaitsForNoConnectionThatIsGone(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		used := s.mustTake(t, false)
		s.becomes(0, errFull)
		time.AfterFunc(500*time.Millisecond, func() { s.Give(used, false) })
		c := s.mustTake(t, true)
		began := time.Now()
		time.AfterFunc(500*time.Millisecond, func() { s.Give(c, true) })
		if _, err := s.take(t, true); err != errFull || time.Since(began) > 600*time.Millisecond {
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
