package registertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/internal/testrules"
)

// A Harness makes stores for Run.
type Harness struct {
	// NewStore makes a store without a value, and returns a function that opens another client of it. Both
	// are cleaned up with t.Cleanup.
	NewStore func(t testing.TB) (open func(testing.TB) register.Register)

	// MaxBytes is that of the register's Limits.
	MaxBytes int

	// Set replaces the value of the store that NewStore made last, as an operator or a restored copy
	// does. Nil deletes the value.
	Set func(value []byte)

	// LoseAnswers lets swaps reach the store that NewStore made last, while no answer comes back, until
	// restore is called.
	LoseAnswers func() (restore func())
}

// all is what every register must keep to.
var all = []testrules.Rule[*lab]{
	{Name: "at first there is no value", Test: none},
	{Name: "what was swapped is read by all from then on", Test: written},
	{Name: "a swap needs the present version, which never comes twice", Test: conditional},
	{Test: contended,
		Name: "of many writers over one version one wins, and all read its value with its version"},
	{Name: "a swap whose answer is lost is no success and no refusal", Test: lost},
	{Name: "a store that went back refuses the versions that it lost", Test: wentBack},
	{Name: "bytes are kept as they are", Test: hostile},
	{Name: "the largest value fits", Test: largest},
	{Name: "a call ends with its context", Test: cancelled},
	{Name: "a waiter is told of every change", Test: told},
}

// Run runs what every register must pass. It takes seconds on a store in the process, and a minute on a slow
// server. Package conformance has what follows from it for elections.
func Run(t *testing.T, h Harness) {
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) { r.Test(h.lab(t)) })
	}
}

// lab makes a new store.
func (h *Harness) lab(t testing.TB) *lab {
	open := h.NewStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a register that hangs fails the test
	t.Cleanup(cancel)
	return &lab{T: testrules.T{TB: t}, Harness: h, ctx: ctx, open: open, r: open(t)}
}

// A lab is a store with a first client.
type lab struct {
	testrules.T
	*Harness
	ctx  context.Context
	open func(testing.TB) register.Register
	r    register.Register

	values atomic.Int64 // that fresh has returned
}

// fresh returns a value that was never written. All have the same size.
func (l *lab) fresh() []byte { return fmt.Appendf(nil, "%s %09d", rand.Text(), l.values.Add(1)) }

// swap replaces the value, which must succeed.
func (l *lab) swap(version string, value []byte) (now string) {
	l.Helper()
	now, err := l.r.Swap(l.ctx, version, value)
	l.Must(err == nil && now != "", "a swap over the present version %q: %q, %v; want a version and no error",
		version, now, err)
	return now
}

// refused makes a swap that must be refused, and change nothing.
func (l *lab) refused(why, version string) {
	l.Helper()
	value, present := l.get(l.r)
	now, err := l.r.Swap(l.ctx, version, l.fresh())
	l.Want(errors.Is(err, register.ErrChanged), "a swap over %s: %q, %v, want ErrChanged", why, now, err)
	l.shows(l.r, value, present)
}

// get reads the value with a client.
func (l *lab) get(r register.Register) (value []byte, version string) {
	l.Helper()
	value, version, err := r.Get(l.ctx)
	l.Must(err == nil, "a reading: %v", err)
	return value, version
}

// shows fails the test unless a client reads this value.
func (l *lab) shows(r register.Register, value []byte, version string) {
	l.Helper()
	got, now := l.get(r)
	l.Want(now == version && bytes.Equal(got, value),
		"version %q is read, with %d bytes %.60q; want version %q, with %d bytes %.60q",
		now, len(got), got, version, len(value), value)
}

func none(l *lab) {
	l.shows(l.r, nil, "")
	l.refused("a version of a value that was never there", "1")
	l.shows(l.open(l), nil, "")
}

func written(l *lab) {
	others := []register.Register{l.r, l.open(l), l.open(l)}
	for round, version := 0, ""; round < 20; round++ {
		value := l.fresh()
		version = l.swap(version, value)
		for _, r := range others {
			l.shows(r, value, version)
		}
	}
}

func conditional(l *lab) {
	seen := map[string]bool{}
	for round, version := 0, ""; round < 40; round++ {
		was := version
		version = l.swap(was, l.fresh())
		l.Must(!seen[version], "version %q comes again in round %d", version, round)
		seen[version] = true
		l.refused("the version before, or nothing, though there is a value", was)
		for _, other := range []string{"", version + "0", "*", "\"\"", "x"} {
			l.refused("another version", other)
		}

		if round%8 == 7 && l.Set != nil {
			l.Set(nil)
			l.shows(l.r, nil, "")
			l.refused("the version of a value that was deleted", version)
			version = ""
		}
	}
}

// contended lets writers of large values race over one version. Whoever reads a version meanwhile or
// afterwards reads its value.
func contended(l *lab) {
	clients := make([]register.Register, 8)
	for i := range clients {
		clients[i] = l.open(l)
	}
	was, version := l.get(l.r)
	values := map[string][]byte{version: was}
	for round := 0; round < 25 && !l.Failed(); round++ {
		var mu sync.Mutex
		var winners [][]byte
		start := make(chan bool)
		var all sync.WaitGroup
		for _, r := range clients {
			mine := append(l.fresh(), bytes.Repeat([]byte("."), 40_000)...)
			all.Go(func() {
				<-start
				_, err := r.Swap(l.ctx, version, mine)
				read, now, failed := r.Get(l.ctx)

				mu.Lock()
				defer mu.Unlock()
				if failed != nil || err != nil && !errors.Is(err, register.ErrChanged) {
					l.Errorf("round %d: a swap beside others: %v, want nil or ErrChanged, and a reading: %v",
						round, err, failed)
					return
				}
				if err == nil {
					winners = append(winners, mine)
				}
				value, ok := values[now]
				l.Want(!ok || bytes.Equal(value, read), "round %d: version %q is read as %d bytes %.40q "+
					"and %d bytes %.40q", round, now, len(value), value, len(read), read)
				values[now] = read
			})
		}
		close(start)
		all.Wait()

		l.Must(len(winners) == 1, "%d of %d writers over %q have won", len(winners), len(clients), version)
		_, version = l.get(l.r)
		l.shows(l.r, winners[0], version)
		value, ok := values[version]
		l.Want(!ok || bytes.Equal(value, winners[0]), "round %d: the value is not that of the winner", round)
		values[version] = winners[0]
	}
}

func lost(l *lab) {
	if l.LoseAnswers == nil {
		l.Skip("the harness loses no answers")
	}
	before := l.fresh()
	version := l.swap("", before)
	restore := l.LoseAnswers()
	ctx, cancel := context.WithTimeout(l.ctx, time.Second)
	defer cancel()
	value := l.fresh()
	now, err := l.r.Swap(ctx, version, value)
	restore()
	l.Want(err != nil && !errors.Is(err, register.ErrChanged),
		"a swap without an answer: version %q, %v, want an error other than ErrChanged", now, err)

	got, present := l.get(l.open(l))
	l.Want(bytes.Equal(got, before) || bytes.Equal(got, value),
		"the value is %.60q, neither that before nor that after the swap", got)
	l.swap(present, l.fresh())
}

func wentBack(l *lab) {
	if l.Set == nil {
		l.Skip("the harness sets no value")
	}
	old := l.fresh()
	lost := l.swap(l.swap("", old), l.fresh())
	l.Set(old)
	l.refused("a version that an older copy has undone", lost)
	_, now := l.get(l.r)
	l.swap(now, l.fresh())
	l.refused("a version that was undone, after another swap", lost)
}

func hostile(l *lab) {
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	version := ""
	for _, text := range []string{
		string(all), "\r\n\r\nHTTP/1.1 200 OK\r\n", "\xff\xfe\x00", "\n", "é€𝄞",
		"--boundary\n", "0\r\n\r\n", "</Value>", "'; --", "%00%2e",
	} {
		value := append([]byte(text), l.fresh()...)
		value = append(value, text...)
		version = l.swap(version, value)
		l.shows(l.open(l), value, version)
	}
}

func largest(l *lab) {
	value := make([]byte, l.MaxBytes)
	rand.Read(value)
	version := l.swap("", value)
	l.shows(l.open(l), value, version)
	small := l.fresh()
	l.shows(l.open(l), small, l.swap(version, small))
}

func cancelled(l *lab) {
	version := l.swap("", l.fresh())
	ctx, cancel := context.WithCancel(l.ctx)
	cancel()
	_, _, err := l.r.Get(ctx)
	l.Want(err != nil, "a reading after its context has ended has no error")
	_, err = l.r.Swap(ctx, version, l.fresh())
	l.Want(err != nil && !errors.Is(err, register.ErrChanged),
		"a swap after its context has ended: %v, want an error other than ErrChanged", err)
}

func told(l *lab) {
	w, ok := l.open(l).(register.Waiter)
	if !ok {
		l.Skip("this register tells of no changes")
	}
	version := ""
	for round := range 20 {
		heard, was := make(chan error, 1), version
		wait := func() { heard <- w.Wait(l.ctx, was) }
		if round%2 == 0 { // otherwise it waits for what has been made already
			go wait()
		}
		version = l.swap(version, l.fresh())
		if round%2 == 1 {
			wait()
		}
		err := <-heard
		l.Must(err == nil, "round %d: a waiter: %v", round, err)
	}
}
