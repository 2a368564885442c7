package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/election"
)

// The judge checks S1, S2, S4, S5, S8, S10 and S11 in every case that has
// managers. Those here provoke each of them.
var safetyCases = append(cutCases(),
	Case{Rule: "S2", Name: "trust counts from the sending", Run: safeAnchored,
		Says: "Trusted until at most the start of the successful call + TTL − clock margin, however late the answer comes."},
	Case{Rule: "S3", Name: "leading is right at once after a stall", Run: safeStall,
		Says: "Leading() compares the clock with the deadline at every call: it is right though the manager itself is stopped."},
	Case{Rule: "S6", Name: "a lost lease is never adopted again", Run: safeResurrection,
		Says: "A leadership that has run out does not come back, even if nobody took the lease: a new bid, a new term."},
	Case{Rule: "S7", Name: "doubled and late requests touch no later term", Run: safeLate,
		Says: "A renewal or release of term n that arrives late, or twice, does not touch term n+1, also of the same candidate."},
	Case{Rule: "S8", Name: "a lost answer is no win", Run: safeUnknown,
		Says: "A bid whose answer is lost is never a leadership; what it may have been granted is granted anew or released."},
	Case{Rule: "S8", Name: "a bid that arrives late leaves no orphan", Run: safeOrphan,
		Says: "What a late bid was granted after its candidate has stopped campaigning is released."},
	Case{Rule: "S12", Name: "one failing item harms no other election", Run: safeItem,
		Says: "An item of a batch that fails costs no other election its lease."},
	Case{Rule: "S13", Name: "the holder's TTL decides", Run: safeHolderTTL, skip: all(exclusive, expires),
		Says: "A takeover waits for the holder's TTL, not for the challenger's."},
	Case{Rule: "S14", Name: "a challenger watches for itself", Run: safeWatch, skip: all(exclusive, watched),
		Says: "A challenger takes a held lease only after it has itself seen it unchanged for the holder's TTL, counted from the receipt of the first answer; that the record is ancient does not help."},
)

// cutCases cut a leader off in each way, a case each, so that they can run side by
// side.
func cutCases() (cases []Case) {
	for _, cut := range []struct {
		name   string
		silent bool // the store hears nothing more from the leader
		fate   func(t *Trial, c Call) Fate
	}{
		{"of whom nothing arrives", true, func(t *Trial, c Call) Fate { return Fate{Lost: true} }},
		{"to whom nothing comes back", false, func(t *Trial, c Call) Fate { return Fate{AnswerLost: true} }},
		{"whose calls are late", false, func(t *Trial, c Call) Fate { return Fate{Before: t.TTL} }},
		{"whose calls fail", true, func(t *Trial, c Call) Fate { return Fate{Err: errOut} }},
		{"whose renewals are not answered", false, func(t *Trial, c Call) Fate { return Fate{AnswerLost: c.Method == "Renew"} }},
		{"whose renewals do not arrive", false, func(t *Trial, c Call) Fate { return Fate{Lost: c.Method == "Renew"} }},
	} {
		cases = append(cases, Case{Rule: "S1", Name: "a leader " + cut.name, skip: exclusive,
			Says: "The intervals during which Leading() is true in different processes never overlap, whoever is cut off from the store and for how long.",
			Run: func(t *Trial) error {
				return safeCut(t, cut.silent, func(c Call) Fate { return cut.fate(t, c) })
			}})
	}
	return cases
}

func safeCut(t *Trial, silent bool, how func(Call) Fate) error {
	a, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	a.node.wire.Decide(how)
	end := t.now() + t.TTL + 2*t.bound()
	if silent && !t.lasts() { // otherwise the leader may go on bidding, or the store hears its renewals
		if err := t.until(end-t.now(), "the follower to lead after the leader was cut off", b.Leading); err != nil {
			return err
		}
	}
	t.sleep(end - t.now())
	if silent && t.lasts() {
		if err := must(!b.Leading(), "no second leader while the process of the first one lives", b.Current()); err != nil {
			return err
		}
	}
	a.node.wire.Decide(nil)
	t.sleep(t.bound())
	_, _, err = t.elected(t.TTL, a, b)
	return err
}

func safeAnchored(t *Trial) error {
	a, err := t.seat("a", "jobs", nil)
	if err != nil {
		return err
	}
	delay := t.callTimeout() * 6 / 10
	var cut atomic.Bool
	a.node.wire.Decide(func(c Call) Fate {
		if cut.Load() {
			return Fate{Lost: true}
		}
		if c.Method == "Acquire" || c.Method == "Renew" {
			return Fate{After: delay}
		}
		return Fate{}
	})
	if err := a.lead(); err != nil {
		return err
	}
	if _, _, err := t.elected(2*t.bound(), a); err != nil {
		return err
	}
	t.sleep(3 * t.TTL)
	if err := must(a.Leading() || !t.Virtual, "a leader though answers are slow", a.Current()); err != nil {
		return err
	}
	if _, _, err := t.elected(2*t.bound(), a); err != nil {
		return err
	}
	before := a.node.lastSent("jobs")
	if err := t.until(t.TTL, "another renewal", func() bool { return a.node.lastSent("jobs") > before }); err != nil {
		return err
	}
	cut.Store(true)
	t.sleep(a.node.lastSent("jobs") + t.TTL - t.clockMargin() - t.TTL/10 - t.now())
	early := a.Leading()
	deadline := t.runOut(a.node, "jobs")
	late := a.Leading()
	return errors.Join(
		must(early || !t.Virtual, "trust to last until shortly before the deadline", early),
		must(!late, fmt.Sprintf("Leading() false past %v, which is the deadline of the last granted call, whose answer took %v", deadline, delay), late))
}

// stalls is a log handler that stops the manager's own loop for a while, as a
// long garbage collection, a debugger or a starved machine would. Whether something is
// to be logged is all that the loop itself asks it.
type stalls struct {
	armed *atomic.Bool
	hit   *atomic.Bool
	d     time.Duration
}

func (s stalls) Enabled(context.Context, slog.Level) bool {
	if s.armed.CompareAndSwap(true, false) {
		s.hit.Store(true)
		time.Sleep(s.d)
	}
	return true
}
func (s stalls) Handle(context.Context, slog.Record) error { return nil }
func (s stalls) WithAttrs([]slog.Attr) slog.Handler        { return s }
func (s stalls) WithGroup(string) slog.Handler             { return s }

func safeStall(t *Trial) error {
	var armed, hit atomic.Bool
	a, err := t.seat("a", "jobs", func(o *election.Options) {
		o.Logger = slog.New(stalls{&armed, &hit, 3*t.TTL + 2*t.bound()})
	})
	if err != nil {
		return err
	}
	if err := a.lead(); err != nil {
		return err
	}
	if _, _, err := t.elected(2*t.bound(), a); err != nil {
		return err
	}
	b, err := t.seat("b", "jobs", nil)
	if err != nil {
		return err
	}
	if err := b.lead(); err != nil {
		return err
	}
	t.sleep(t.TTL)
	other, err := a.node.join("other")
	if err != nil {
		return err
	}
	old, err := t.leadership(t.bound(), a)
	if err != nil {
		return err
	}
	armed.Store(true)
	if err := other.lead(); err != nil { // its bid is logged by the loop, which is where the loop stops
		return err
	}
	if err := t.until(t.bound(), "the manager to be stopped", hit.Load); err != nil {
		return err
	}
	t.runOut(a.node, "jobs")
	if err := errors.Join(must(!a.Leading(), "Leading() false past the deadline while the manager is stopped", a.Leading()),
		must(a.Leadership() == nil, "no Leadership past the deadline", a.Leadership()),
		same("Remaining past the deadline", old.Remaining(), 0),
		must(a.Current().Kind != election.Elected, "a current state that names no leader", a.Current())); err != nil {
		return err
	}
	// Where a lease lasts as long as its process, the successor must wait for the
	// manager to go on.
	if !t.lasts() {
		if _, _, err := t.elected(t.bound(), b); err != nil {
			return fmt.Errorf("successor of a stopped manager: %w", err)
		}
	}
	return t.until(5*t.bound(), "the stopped manager to tell that it lost the leadership", func() bool {
		return a.heard(func(e election.Event) bool { return e.Kind == election.Elected && e.Leading }) &&
			a.heard(func(e election.Event) bool { return e.Reason == election.ReasonDeadline }) && old.Context().Err() != nil
	})
}

func safeResurrection(t *Trial) error {
	a, _, err := t.led(1, "jobs", nil)
	if err != nil {
		return err
	}
	old, err := t.leadership(t.bound(), a)
	if err != nil {
		return err
	}
	a.node.wire.Cut(true)
	t.runOut(a.node, "jobs")
	a.node.wire.Cut(false)
	now, err := t.leadership(2*t.bound(), a)
	if err != nil {
		return err
	}
	return errors.Join(must(now.Term > old.Term, fmt.Sprintf("a term above %d after the leadership ran out", old.Term), now),
		must(!old.Leading(), "the old leadership to be over for ever", old.Leading()),
		must(old.Context().Err() != nil, "its context to be cancelled", old.Context().Err()))
}

func safeLate(t *Trial) error {
	a, others, err := t.led(2, "jobs", nil)
	if err != nil {
		return err
	}
	b := others[0]
	for _, s := range []*seat{a, b} {
		s.node.wire.Decide(func(c Call) Fate {
			if c.Method == "Renew" || c.Method == "Release" {
				return Fate{Again: t.TTL * 2 / 3}
			}
			return Fate{}
		})
	}
	for i := range 6 {
		leader, _, err := t.elected(t.bound(), a, b)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), t.bound())
		err = leader.Resign(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("resignation %d: expected nil, got %w", i, err)
		}
		t.sleep(t.TTL)
	}
	t.sleep(t.TTL)
	for _, s := range []*seat{a, b} {
		for _, e := range s.events() {
			late := e.Reason == election.ReasonDeadline || e.Reason == election.ReasonUnreachable // a busy machine may be
			if e.Reason == election.ReasonRefused || late && t.Virtual {
				return fmt.Errorf("requests that arrive twice: expected leaderships to end by resignation only, got %v", e)
			}
		}
	}
	_, _, err = t.elected(t.bound(), a, b)
	return err
}

func safeUnknown(t *Trial) error {
	a, err := t.seat("a", "jobs", nil)
	if err != nil {
		return err
	}
	var lost atomic.Int64
	a.node.wire.Decide(func(c Call) Fate {
		if c.Method == "Acquire" && lost.Add(1) <= 3 {
			return Fate{AnswerLost: true}
		}
		return Fate{}
	})
	if err := a.lead(); err != nil {
		return err
	}
	if err := t.until(4*t.bound(), "three bids whose answers are lost", func() bool { return lost.Load() > 3 || a.Leading() }); err != nil {
		return err
	}
	if err := must(lost.Load() > 3, "no leadership while the answers to all bids are lost", a.Current()); err != nil {
		return err
	}
	_, _, err = t.elected(t.bound(), a) // the judge compares its term with what was answered
	return err
}

func safeOrphan(t *Trial) error {
	a, err := t.seat("a", "jobs", nil)
	if err != nil {
		return err
	}
	var late atomic.Bool
	a.node.wire.Decide(func(c Call) Fate {
		if c.Method == "Acquire" {
			late.Store(true)
			return Fate{Before: 3 * t.callTimeout()}
		}
		return Fate{}
	})
	if err := a.lead(); err != nil {
		return err
	}
	if err := t.until(2*t.bound(), "a bid", late.Load); err != nil {
		return err
	}
	a.Pause()
	t.sleep(3 * t.callTimeout()) // now it has arrived
	b, err := t.seat("b", "jobs", nil)
	if err != nil {
		return err
	}
	if err := b.lead(); err != nil {
		return err
	}
	if _, _, err = t.elected(2*t.bound(), b); err != nil {
		return fmt.Errorf("beside a paused candidate whose bid arrived late: %w", err)
	}
	return nil
}

func safeItem(t *Trial) error {
	n, err := t.node("a", nil)
	if err != nil {
		return err
	}
	var seats []*seat
	for i := range 5 {
		s, err := n.join(fmt.Sprintf("jobs%d", i))
		if err != nil {
			return err
		}
		if err := s.lead(); err != nil {
			return err
		}
		seats = append(seats, s)
	}
	if err := t.until(2*t.bound(), "all five to lead", func() bool {
		for _, s := range seats {
			if !s.Leading() {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	terms := map[string]uint64{}
	for _, s := range seats {
		l, err := t.leadership(t.bound(), s)
		if err != nil {
			return err
		}
		terms[s.Name()] = l.Term
	}
	n.wire.Decide(func(c Call) Fate {
		if c.Method == "Renew" {
			return Fate{Spoil: []string{"jobs2"}}
		}
		return Fate{}
	})
	t.sleep(3 * t.TTL)
	n.wire.Decide(nil)
	for i, s := range seats {
		l := s.Leadership()
		if i != 2 && (l == nil || l.Term != terms[s.Name()]) {
			return fmt.Errorf("%s, while the renewals of jobs2 had no outcome: expected it to be led in term %d all the time, got %v", s.Name(), terms[s.Name()], s.events())
		}
	}
	if err := t.told(seats[2], "jobs2, whose renewals had no outcome, to be told that its leadership has ended at its deadline", func(e election.Event) bool {
		return e.Reason == election.ReasonUnreachable || e.Reason == election.ReasonDeadline
	}); err != nil {
		return err
	}
	_, _, err = t.elected(2*t.bound(), seats[2])
	return err
}

func safeHolderTTL(t *Trial) error {
	short := max(t.TTL/2, t.MinTTL)
	if short > t.TTL/2 {
		return nil // the store knows no two TTLs that differ enough
	}
	a, _, err := t.led(1, "jobs", nil)
	if err != nil {
		return err
	}
	b, err := t.seat("b", "jobs", func(o *election.Options) { o.TTL = short })
	if err != nil {
		return err
	}
	if err := b.lead(); err != nil {
		return err
	}
	t.sleep(t.TTL)
	a.node.wire.Cut(true)
	sent := a.node.lastSent("jobs")
	if _, _, err := t.elected(t.bound(), b); err != nil {
		return err
	}
	won, _ := b.toldAt(func(e election.Event) bool { return e.Leading })
	return must(won >= sent+t.TTL, fmt.Sprintf("no takeover before %v: the holder's last renewal was sent at %v with a TTL of %v, the challenger's is %v", sent+t.TTL, sent, t.TTL, short), won)
}

func safeWatch(t *Trial) error {
	a, _, err := t.led(1, "jobs", nil)
	if err != nil {
		return err
	}
	a.node.dies()
	t.sleep(3 * t.TTL) // the record is ancient now
	if l, err := t.client("reader").look("jobs"); err != nil || l.Vacant() {
		return err // a store with sessions may have ended it by itself: it is not held any more
	}
	b, err := t.node("b", nil)
	if err != nil {
		return err
	}
	b.wire.Keep(true)
	b.wire.Decide(func(c Call) Fate {
		if c.Method == "Observe" {
			return Fate{After: t.callTimeout() / 2}
		}
		return Fate{}
	})
	s, err := b.join("jobs")
	if err != nil {
		return err
	}
	if err := s.lead(); err != nil {
		return err
	}
	if _, _, err := t.elected(t.bound()+t.callTimeout(), s); err != nil {
		return err
	}
	won, _ := s.toldAt(func(e election.Event) bool { return e.Leading })
	for _, c := range b.wire.Log() {
		if c.Method == "Observe" && c.Err == nil {
			first := b.wire.began.Sub(t.began) + c.Received
			return must(won >= first+t.TTL, fmt.Sprintf("no takeover before %v: the first answer was received at %v, the holder's TTL is %v", first+t.TTL, first, t.TTL), won)
		}
	}
	return fmt.Errorf("expected the challenger to have observed the lease, it took it without looking")
}
