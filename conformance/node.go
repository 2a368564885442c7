package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/election"
)

// A node is one process: a manager on a client of its own, behind a wire.
type node struct {
	*election.Manager
	t           *Trial
	wire        *Wire
	key         string // of the process in the history
	ttl         time.Duration
	clockMargin time.Duration
	dead        atomic.Bool // as after kill -9: cut off, and what it believes does not count
	closed      atomic.Bool

	mu    sync.Mutex
	seats []*seat
	sents map[grantKey]time.Duration // when the last granted call of a leadership was sent
}

type grantKey struct {
	election string
	term     uint64
}

// A seat is a node's part in one election.
type seat struct {
	*election.Election
	node   *node
	left   bool   // its watcher is told no more
	belief *Entry // the judge's
	number int    // of its watcher

	mu   sync.Mutex
	told []election.Event
	at   []time.Duration // when each was told
	ran  int             // leaderships whose function was called
}

// options are the timings of a node.
func (t *Trial) options(id string) *election.Options {
	return &election.Options{ID: id, TTL: t.TTL, StepDownTimeout: 2 * t.TTL}
}

func (t *Trial) renewEvery() time.Duration  { return t.TTL / 3 }
func (t *Trial) callTimeout() time.Duration { return t.TTL / 4 }
func (t *Trial) clockMargin() time.Duration { return max(t.TTL/6, t.ClockMargin) }

// bound is how long it may take at most until there is a leader again when all
// is well: what a takeover costs, with two readings and a call to spare.
func (t *Trial) bound() time.Duration {
	return t.TTL + t.Takeover + 2*t.renewEvery() + t.callTimeout() + t.Late
}

// handover is how long it may take from an orderly release to the next leadership:
// one push or one reading.
func (t *Trial) handover() time.Duration {
	if t.Poll || !t.Push {
		return t.renewEvery() + t.TTL/20 + t.Late
	}
	return t.TTL/50 + t.Late
}

// node starts a manager. change, if not nil, changes its options.
func (t *Trial) node(id string, change func(*election.Options)) (*node, error) {
	if t.judge == nil {
		t.judge = newJudge(t)
	}
	o := t.options(id)
	if change != nil {
		change(o)
	}
	n := &node{t: t, key: nodeKey(id, t.started), ttl: o.TTL, clockMargin: o.ClockMargin, sents: map[grantKey]time.Duration{}}
	if n.clockMargin == 0 {
		n.clockMargin = max(o.TTL/6, t.ClockMargin)
	}
	n.wire = Wrap(t.Store.Open(t.tb))
	n.wire.Notify(func(c Call) { t.judge.called(n, c) })
	m, err := election.New(n.wire, o)
	if err != nil {
		n.wire.Close()
		return nil, fmt.Errorf("new manager %q: expected no error, got %w", id, err)
	}
	n.Manager = m
	t.nodes = append(t.nodes, n)
	t.started++
	return n, nil
}

func (n *node) sent(name string, term uint64, at time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := grantKey{name, term}
	n.sents[k] = max(n.sents[k], at)
}

func (n *node) sentAt(name string, term uint64) (time.Duration, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.sents[grantKey{name, term}]
	return at, ok
}

// lastSent is when the last granted call of the node's present or last leadership was sent.
func (n *node) lastSent(name string) (last time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, at := range n.sents {
		if k.election == name {
			last = max(last, at)
		}
	}
	return last
}

// join joins an election and watches it.
func (n *node) join(name string) (*seat, error) {
	e, err := n.Join(name)
	if err != nil {
		return nil, fmt.Errorf("join %q: expected no error, got %w", name, err)
	}
	s := &seat{Election: e, node: n}
	n.mu.Lock()
	n.seats = append(n.seats, s)
	s.number = len(n.seats)
	n.mu.Unlock()
	n.t.judge.add(s)
	e.Watch(func(ev election.Event) {
		at := n.t.now()
		s.mu.Lock()
		s.told, s.at = append(s.told, ev), append(s.at, at)
		s.mu.Unlock()
		n.t.judge.note(eventEntry(n.key, s.number, at, ev))
		n.t.judge.sweep()
	})
	return s, nil
}

// lead campaigns with a function that works until its context ends.
func (s *seat) lead() error { return s.leadWith(nil) }

// leadWith campaigns with fn, whose runs are noted. nil: works until its context ends.
func (s *seat) leadWith(fn election.LeadFunc) error {
	if err := s.Lead(s.noted(fn)); err != nil {
		return fmt.Errorf("lead %q: expected no error, got %w", s.Name(), err)
	}
	return nil
}

// noted is fn with its runs noted in the history.
func (s *seat) noted(fn election.LeadFunc) election.LeadFunc {
	return func(ctx context.Context, l *election.Leadership) error {
		e := Entry{Process: s.node.key, Election: s.Name(), Kind: Ran, Term: l.Term, From: s.node.t.now()}
		s.mu.Lock()
		s.ran++
		s.mu.Unlock()
		defer func() {
			e.To = s.node.t.now()
			s.node.t.judge.note(e)
		}()
		if fn == nil {
			<-ctx.Done()
			return nil
		}
		return fn(ctx, l)
	}
}

func (s *seat) runs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran
}

// events returns what the seat's watcher has been told so far.
func (s *seat) events() []election.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// leaderships returns of how many own leaderships the seat's watcher has been told.
func (s *seat) leaderships() (n int) {
	for _, e := range s.events() {
		if e.Kind == election.Elected && e.Leading {
			n++
		}
	}
	return n
}

// toldAt returns when the watcher was told something for which is holds; the
// latest such time.
func (s *seat) toldAt(is func(election.Event) bool) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.told) - 1; i >= 0; i-- {
		if is(s.told[i]) {
			return s.at[i], true
		}
	}
	return 0, false
}

// heard reports whether the watcher was told something for which is holds.
func (s *seat) heard(is func(election.Event) bool) bool {
	_, ok := s.toldAt(is)
	return ok
}

// last returns the last state that the watcher was told.
func (s *seat) last() (Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.told) - 1; i >= 0; i-- {
		if s.told[i].Kind != election.Notice {
			return eventEntry(s.node.key, 0, s.at[i], s.told[i]), true
		}
	}
	return Entry{}, false
}

// leaves leaves the election.
func (s *seat) leaves() error {
	s.left = true
	ctx, cancel := s.node.t.ctx()
	defer cancel()
	err := s.Leave(ctx)
	now := s.node.t.now()
	s.node.t.judge.note(Entry{Process: s.node.key, Election: s.Name(), Kind: Ended, Watcher: s.number, From: now, To: now})
	if err != nil {
		return fmt.Errorf("leave: expected nil, got %w", err)
	}
	return nil
}

// dies cuts the node off and forgets it, as after kill -9.
func (n *node) dies() {
	n.dead.Store(true)
	n.wire.Cut(true)
	if n.t.Store.Kill != nil {
		n.t.Store.Kill(n.wire.inner)
	}
}

// close closes the manager and expects it to succeed.
func (n *node) close(limit time.Duration) error {
	if n.closed.Swap(true) {
		return nil
	}
	if !n.t.Virtual { // how long it takes there is not what is asked
		limit = max(limit, time.Minute)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := n.Close(ctx)
	if errors.Is(err, election.ErrNotReleased) && !n.t.Virtual {
		return nil // as for so long the store has not answered
	}
	if err != nil {
		return fmt.Errorf("close %s: expected it to end in order within %v, got %w", n.key, limit, err)
	}
	return nil
}

// end closes the node at the end of a case, whatever state it is in.
func (n *node) end() error {
	if !n.dead.Load() {
		n.wire.Cut(false)
		return n.close(4 * n.t.TTL)
	}
	if !n.closed.Swap(true) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		n.Close(ctx) // what is dead cannot release anything
	}
	return nil
}

// cluster starts n nodes that campaign for one election.
func (t *Trial) cluster(n int, name string, change func(*election.Options)) ([]*seat, error) {
	var seats []*seat
	for i := range n {
		s, err := t.seat(string(rune('a'+i)), name, change)
		if err != nil {
			return nil, err
		}
		if err := s.lead(); err != nil {
			return nil, err
		}
		seats = append(seats, s)
	}
	return seats, nil
}

// seat starts a node that has joined an election and does not campaign.
func (t *Trial) seat(id, name string, change func(*election.Options)) (*seat, error) {
	n, err := t.node(id, change)
	if err != nil {
		return nil, err
	}
	return n.join(name)
}

// elected waits until one of the seats leads, and returns it and the others.
func (t *Trial) elected(limit time.Duration, seats ...*seat) (leader *seat, others []*seat, err error) {
	err = t.until(limit, "a leader", func() bool {
		leader = leading(seats)
		return leader != nil
	})
	for _, s := range seats {
		if s != leader {
			others = append(others, s)
		}
	}
	if leader != nil { // cases ask when it was told
		t.after(t.TTL/10, "its watcher to be told", func() bool {
			last, ok := leader.last()
			return ok && last.Leading || !leader.Leading()
		})
	}
	return leader, others, err
}

// leadership waits until a seat leads, and returns its leadership.
func (t *Trial) leadership(limit time.Duration, s *seat) (l *election.Leadership, err error) {
	err = t.until(limit, s.node.key+" to lead", func() bool {
		l = s.Leadership()
		return l != nil
	})
	return l, err
}

// one waits until exactly one of the seats leads: on a busy machine a leader may just
// have lost, and there is another within the bound. That there are never two is the judge's
// to see.
func (t *Trial) one(seats ...*seat) error {
	limit := t.TTL
	if !t.Virtual {
		limit = 2 * t.bound()
	}
	return t.until(limit, "exactly one leader", func() bool {
		n := 0
		for _, s := range seats {
			if s.Leading() {
				n++
			}
		}
		return n == 1
	})
}

// told waits until a seat's watcher, which runs beside all else, is told something.
func (t *Trial) told(s *seat, what string, is func(election.Event) bool) error {
	err := t.until(t.TTL/10, what, func() bool { return s.heard(is) })
	if err != nil {
		err = fmt.Errorf("%w: %s was told %v", err, s.node.key, s.events())
	}
	return err
}

// runOut waits until the last lease that a node was granted, of whom nothing is granted
// any more, is not to be trusted, and returns when that is. A call that was under way
// when it was cut off may have been granted after all.
func (t *Trial) runOut(n *node, name string) time.Duration {
	for {
		deadline := n.lastSent(name) + n.ttl - n.clockMargin
		if t.now() > deadline {
			return deadline
		}
		t.sleep(deadline + time.Microsecond - t.now())
	}
}

func leading(seats []*seat) *seat {
	for _, s := range seats {
		if !s.node.dead.Load() && s.Leading() {
			return s
		}
	}
	return nil
}

// led starts a cluster and waits for its first leader.
func (t *Trial) led(n int, name string, change func(*election.Options)) (leader *seat, others []*seat, err error) {
	seats, err := t.cluster(n, name, change)
	if err != nil {
		return nil, nil, err
	}
	leader, others, err = t.elected(2*t.bound(), seats...)
	if err == nil {
		t.sleep(t.renewEvery()) // everybody has seen it
		err = t.until(t.bound(), "everybody to know a leader", func() bool {
			return !slices.ContainsFunc(seats, func(s *seat) bool { _, _, ok := s.Leader(); return !ok })
		})
	}
	return leader, others, err
}
