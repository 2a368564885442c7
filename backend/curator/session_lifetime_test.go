package curator

import (
	"context"
	"testing"
	"time"
	"unsafe"

	"github.com/go-election/go-election/lab/testbed"
)

// The rest of a session is counted by the clock that says more: the monotonic clock stops
// while the machine is suspended, the wall clock may be set back.
func TestASessionGetsOlderWhileTheMachineIsSuspended(t *testing.T) {
	t.Parallel()
	a := newClient(t, "a", longSessions(shared(t)))
	a.winLongSession(t, "jobs")
	s, id := a.session, a.session.id()
	_, touched := s.validFor(id, time.Now())
	length := s.Connection().Length
	for what, c := range map[string]struct {
		later, set, want time.Duration // time on the monotonic clock; how the wall clock was set meanwhile
	}{
		"awake":                         {time.Second, 0, length - time.Second},
		"suspended":                     {time.Second, 5 * time.Second, length - 6*time.Second},
		"the clock was set back":        {time.Second, -time.Hour, length - time.Second},
		"suspended for longer than all": {time.Second, time.Minute, length - 61*time.Second},
	} {
		start := touched.Add(c.later + c.set)
		monotonic := (*int64)(unsafe.Add(unsafe.Pointer(&start), unsafe.Sizeof(uint64(0)))) // the second field of time.Time
		*monotonic -= int64(c.set)
		if start.Sub(touched) != c.later {
			t.Fatalf("this test no longer knows where a time.Time has its monotonic clock: %v", start.Sub(touched))
		}
		if left, _ := s.validFor(id, start); left != c.want {
			t.Errorf("%s: want %v to be left, got %v", what, c.want, left)
		}
	}
}

// A call that may wait for servers waits for them, and is connected without another call.
func TestACallThatWaitsForServersIsNotForgotten(t *testing.T) {
	t.Parallel()
	o := shared(t)
	proxy := testbed.NewProxy(t, o.Servers[0])
	proxy.Refuse(true)
	o.Servers, o.MaxSession = []string{proxy.Addr()}, 6*tick
	a := newClient(t, "a", o)
	answered := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := a.List(ctx, "", 10)
		answered <- err
	}()
	pause(t, 3*o.MaxSession)
	select {
	case err := <-answered:
		t.Fatalf("want it to wait, got %v", err)
	default:
	}
	proxy.Refuse(false)
	if err := <-answered; err != nil {
		t.Errorf("want it to be answered once there are servers, got %v", err)
	}
}
