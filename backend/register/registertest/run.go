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
	// NewStore makes a store without a value, and returns a function that opens another client of it. Both are
	// cleaned up with t.Cleanup.
	NewStore func(t testing.TB) (open func(testing.TB) register.Register)

	// MaxBytes is that of the register's Limits.
	MaxBytes int

	// Set replaces the value of the store that NewStore made last, as an operator or a restored copy
	// does. Nil deletes the value.
	Set func(value []byte)

	// LoseAnswers lets swaps reach the store that NewStore made last, while no answer comes back, until restore
	// is called.
	LoseAnswers func() (restore func())
}

// all is what every register must keep to.
var all = []testrules.Rule[*lab]{
	{Name: "at first there is no value", Test: none},
	{Name: "what was swapped is read by all from then on", Test: written},
	{Name: "a swap needs the present version", Test: conditional},
	{Name: "no version comes twice", Test: versions},
	{Name: "of many writers over one version one wins, and all read its value with its version", Test: contended},
	{Name: "a swap whose answer is lost is no success and no refusal", Test: lost},
	{Name: "a store that went back refuses the versions that it lost", Test: wentBack},
	{Name: "bytes are kept as they are", Test: hostile},
	{Name: "the largest value fits", Test: largest},
	{Name: "a call ends with its context", Test: cancelled},
	{Name: "a waiter is told of every change", Test: told},
	{Name: "a second Close does nothing", Test: closed},
}

// Run runs what every register must pass. It takes seconds on a store in the process, and a minute on a slow
// server. Package conformance has what follows from it for elections.
func Run(t *testing.T, h Harness) {
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) { r.Test(h.lab(t)) })
	}
}

// limit is how long a test of one rule may take, so that a register that hangs fails the test.
const limit = 2 * time.Minute

// lab makes a new store.
func (h *Harness) lab(t testing.TB) *lab {
	open := h.NewStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return &lab{TB: t, Harness: h, ctx: ctx, open: open, r: open(t)}
}

// A lab is a store with a first client.
type lab struct {
	testing.TB
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
	if err != nil || now == "" {
		l.Fatalf("a swap over the present version %q: version %q, %v", version, now, err)
	}
	return now
}

// refused makes a swap that must be refused, and change nothing.
func (l *lab) refused(why, version string) {
	l.Helper()
	value, present := l.get(l.r)
	if now, err := l.r.Swap(l.ctx, version, l.fresh()); !errors.Is(err, register.ErrChanged) {
		l.Errorf("a swap over %s: version %q, %v, want ErrChanged", why, now, err)
	}
	l.shows(l.r, value, present)
}

// get reads the value with a client.
func (l *lab) get(r register.Register) (value []byte, version string) {
	l.Helper()
	value, version, err := r.Get(l.ctx)
	if err != nil {
		l.Fatalf("a reading: %v", err)
	}
	return value, version
}

// shows fails the test unless a client reads this value.
func (l *lab) shows(r register.Register, value []byte, version string) {
	l.Helper()
	if got, now := l.get(r); now != version || !bytes.Equal(got, value) {
		l.Errorf("version %q is read, with %d bytes %.60q; want version %q, with %d bytes %.60q", now, len(got), got, version, len(value), value)
	}
}

func none(l *lab) {
	l.shows(l.r, nil, "")
	l.refused("a version of a value that was never there", "1")
	l.shows(l.open(l), nil, "")
}

func written(l *lab) {
	others := []register.Register{l.open(l), l.open(l), l.open(l)}
	for round, version := 0, ""; round < 20; round++ {
		value := l.fresh()
		version = l.swap(version, value)
		for _, r := range append(others, l.r) {
			l.shows(r, value, version)
		}
	}
}

func conditional(l *lab) {
	first := l.swap("", l.fresh())
	l.refused("nothing, though there is a value", "")
	second := l.swap(first, l.fresh())
	l.refused("the version before", first)
	l.refused("nothing, though there is a value", "")
	third := l.swap(second, l.fresh())
	for _, version := range []string{first, second, third + "0", "*", "\"\"", "x"} {
		l.refused("another version", version)
	}
	l.swap(third, l.fresh())
}

func versions(l *lab) {
	seen := map[string]bool{}
	for round, version := 0, ""; round < 40; round++ {
		was := version
		if version = l.swap(version, l.fresh()); seen[version] {
			l.Fatalf("version %q comes again in round %d", version, round)
		}
		if seen[version] = true; round%8 == 7 && l.Set != nil {
			l.Set(nil)
			l.shows(l.r, nil, "")
			l.refused("the version of a value that was deleted", version)
			version = ""
			continue
		}
		if was != "" {
			l.refused("the version before", was)
		}
	}
}

// A writer is one of many that race.
type writer struct {
	r       register.Register
	value   []byte // a large one
	won     bool
	read    []byte // afterwards, with
	version string
}

// contended lets writers race over one version. What each of them reads afterwards is the value and the version from before,
// or those of the winner, and never one of these and one of those.
func contended(l *lab) {
	writers := make([]writer, 8)
	for i := range writers {
		writers[i].r = l.open(l)
	}
	was, version := l.get(l.r)
	for round := 0; round < 25 && !l.Failed(); round++ {
		start := make(chan bool)
		var all sync.WaitGroup
		for i := range writers {
			w := &writers[i]
			w.value = append(l.fresh(), bytes.Repeat([]byte("."), 40_000)...)
			all.Go(func() {
				<-start
				_, err := w.r.Swap(l.ctx, version, w.value)
				w.won = err == nil
				var failed error
				w.read, w.version, failed = w.r.Get(l.ctx)
				if !w.won && !errors.Is(err, register.ErrChanged) || failed != nil {
					l.Errorf("round %d: beside other writers, a swap: %v, and a reading: %v", round, err, failed)
				}
			})
		}
		close(start)
		all.Wait()

		value, now := l.get(l.r)
		won := 0
		for _, w := range writers {
			if w.won {
				won++
			}
			if w.won && !bytes.Equal(w.value, value) {
				l.Errorf("round %d: the value is not that of the winner", round)
			}
			before := w.version == version && bytes.Equal(w.read, was)
			if !before && (w.version != now || !bytes.Equal(w.read, value)) {
				l.Errorf("round %d: %d bytes %.40q were read as version %q", round, len(w.read), w.read, w.version)
			}
		}
		if won != 1 {
			l.Errorf("round %d: %d of %d writers over version %q have won", round, won, len(writers), version)
		}
		was, version = value, now
	}
}

func lost(l *lab) {
	if l.LoseAnswers == nil {
		l.Skip("the harness loses no answers")
	}
	first, before := l.fresh(), l.fresh()
	version := l.swap(l.swap("", first), before)
	restore := l.LoseAnswers()
	ctx, cancel := context.WithTimeout(l.ctx, time.Second)
	defer cancel()
	value := l.fresh()
	now, err := l.r.Swap(ctx, version, value)
	if restore(); err == nil || errors.Is(err, register.ErrChanged) {
		l.Errorf("a swap without an answer: version %q, %v", now, err)
	}
	got, present := l.get(l.open(l))
	if !bytes.Equal(got, before) && !bytes.Equal(got, value) {
		l.Errorf("the value is %.60q, neither that before nor that after the swap", got)
	}
	l.swap(present, l.fresh())
}

func wentBack(l *lab) {
	if l.Set == nil {
		l.Skip("the harness sets no value")
	}
	old := l.fresh()
	first := l.swap("", old)
	second := l.swap(first, l.fresh())
	l.Set(old)
	_, now := l.get(l.r)
	if now == second || now == "" {
		l.Errorf("the value of version %q is there again as version %q", first, now)
	}
	l.refused("a version that was lost", second)
	third := l.swap(now, l.fresh())
	if third == second {
		l.Errorf("version %q comes again for another value", second)
	}
	l.refused("a version that was lost", second)
}

func hostile(l *lab) {
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	version := ""
	for _, text := range []string{string(all), "\r\n\r\nHTTP/1.1 200 OK\r\n", "\xff\xfe\x00", "\n", "é€𝄞", "--boundary\n", "0\r\n\r\n", "</Value>", "'; --", "%00%2e"} {
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
	if _, _, err := l.r.Get(ctx); err == nil {
		l.Error("a reading after its context has ended has no error")
	}
	if _, err := l.r.Swap(ctx, version, l.fresh()); err == nil || errors.Is(err, register.ErrChanged) {
		l.Errorf("a swap after its context has ended: %v", err)
	}
	if w, ok := l.r.(register.Waiter); ok {
		_, version := l.get(l.r)
		if err := w.Wait(ctx, version); err == nil {
			l.Error("Wait after its context has ended has no error")
		}
	}
}

func told(l *lab) {
	w, ok := l.open(l).(register.Waiter)
	if !ok {
		l.Skip("this register tells of no changes")
	}
	heard := make(chan error, 1)
	for round, version := 0, ""; round < 20; round++ {
		was := version
		if round%2 == 0 { // otherwise it waits for what has been made already
			go func() { heard <- w.Wait(l.ctx, was) }()
		}
		version = l.swap(version, l.fresh())
		if round%2 == 1 {
			go func() { heard <- w.Wait(l.ctx, was) }()
		}
		if err := <-heard; err != nil {
			l.Fatalf("round %d: a waiter: %v", round, err)
		}
	}
}

func closed(l *lab) {
	r := l.open(l)
	for range 2 {
		if err := r.Close(); err != nil {
			l.Errorf("Close: %v", err)
		}
	}
	l.shows(l.r, nil, "")
}
