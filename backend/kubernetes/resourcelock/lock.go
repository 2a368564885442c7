package resourcelock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgo "k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

var _ clientgo.Interface = (*Lock)(nil)

// A Lock is what one elector of client-go elects through. Its methods are safe for concurrent
// use; those of client-go's interface are for the elector only.
type Lock struct {
	election *election.Election
	id       string
	ttl      time.Duration
	timings  Timings

	mu   sync.Mutex
	wake chan struct{} // closed, and replaced, at each change

	// What the elector does.
	reported string    // the leader that the last Get returned
	until    time.Time // the elector has stopped believing that it leads by then

	// What the manager does.
	cancel    context.CancelFunc   // ends the campaign; nil: there is none
	err       error                // of the last campaign, not yet returned by Get
	lead      *election.Leadership // that can be lent
	lent      *election.Leadership // of the last Update that succeeded
	keepUntil time.Time            // without another Update, the lock gives the lease up then
}

// New joins the election of this name and returns a lock for one elector. New waits for nothing. The error is
// that of [election.Manager.Join].
func New(m *election.Manager, name string) (*Lock, error) {
	e, err := m.Join(name)
	if err != nil {
		return nil, fmt.Errorf("resourcelock: %w", err)
	}
	s := m.Status()
	l := &Lock{election: e, id: s.ID, ttl: s.TTL, timings: timingsOf(s.TTL), wake: make(chan struct{})}
	e.Watch(func(election.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed()
	})
	return l, nil
}

// Election returns the election, to ask Leading, to watch it, or for the term of the present
// leadership, which fences writes. Do not campaign with it: the lock does.
func (l *Lock) Election() *election.Election { return l.election }

// Timings returns the timings that the elector must have.
func (l *Lock) Timings() Timings { return l.timings }

// Identity returns the manager's ID.
func (l *Lock) Identity() string { return l.id }

// Describe returns the election's name.
func (l *Lock) Describe() string { return l.election.Name() }

// Get returns who leads. Nobody leads if the record has no holder: then this elector can lead, by
// Update. While its elector does not lead, Get campaigns, and waits until it can return something
// new: another leader, or that this elector can lead. While its elector leads, Get does not block.
//
// The error is that of [election.Election.Run] if the campaign has failed. When ctx ends first,
// Get stops campaigning and returns ctx's error.
func (l *Lock) Get(ctx context.Context) (*clientgo.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if !l.believing() && l.cancel == nil {
			if err := l.err; err != nil {
				l.err = nil
				return nil, nil, fmt.Errorf("resourcelock: %w", err)
			}
			if ctx.Err() == nil {
				l.start()
			}
		}
		holder, news := l.holder()
		if news || l.believing() {
			l.reported = holder
			return l.record(holder)
		}
		l.await(ctx.Done(), nil)
		if ctx.Err() != nil { // the elector stops asking
			l.reported = ""
			l.endCampaign()
			return nil, nil, fmt.Errorf("resourcelock: wait for a change of leader of %q: %w",
				l.election.Name(), context.Cause(ctx))
		}
	}
}

// believing reports whether the elector may believe that it leads.
func (l *Lock) believing() bool { return time.Now().Before(l.until) }

// holder returns the holder to report. news says that a Get that waits must return it.
func (l *Lock) holder() (id string, news bool) {
	switch {
	case l.lendable() && l.believing():
		return l.id, true
	case l.lendable():
		return "", true
	}
	now := l.election.Current()
	if now.Kind != election.Elected || now.Leading {
		return "", false
	}
	if id = now.Leader.ID; id == l.id {
		id += " (another process)" // or its own elector would take it for itself
	}
	return id, id != l.reported
}

// lendable reports whether an Update can succeed now. An elector that believes in an earlier leadership must
// stop first: the work of that one has ended.
func (l *Lock) lendable() bool {
	return l.lead != nil && (!l.believing() || l.lent == l.lead) && l.lead.Remaining() >= l.timings.loan()
}

func (l *Lock) record(holder string) (*clientgo.LeaderElectionRecord, []byte, error) {
	// The manager knows it at this instant, so RenewTime is now: to the elector the record of
	// another leader never expires.
	r := &clientgo.LeaderElectionRecord{
		HolderIdentity: holder, LeaseDurationSeconds: seconds(l.timings), RenewTime: metav1.Now(),
	}
	raw, err := json.Marshal(r)
	return r, raw, err
}

func seconds(t Timings) int { return int(t.LeaseDuration / time.Second) }

// Create does what Update does. An elector calls it only for a lock without a record.
func (l *Lock) Create(ctx context.Context, r clientgo.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

// Update lends the leadership to the elector, again for RetryPeriod + RenewDeadline. It does not
// block and does not call the store. It fails with election.ErrNotElected if the manager does not lead or its
// lease ends too soon, and with backend.ErrInvalid if LeaseDuration is not the lock's.
//
// A record without a holder, by which an elector gives its lease up, changes nothing: its work goes on.
func (l *Lock) Update(_ context.Context, r clientgo.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed()
	switch {
	case r.HolderIdentity == "":
		return nil
	case r.HolderIdentity != l.id:
		return invalid("an elector with the identity %q uses the lock of %q", r.HolderIdentity, l.id)
	case r.LeaseDurationSeconds != seconds(l.timings):
		return invalid("the elector's LeaseDuration is %ds, not %v: set its timings to Lock.Timings",
			r.LeaseDurationSeconds, l.timings.LeaseDuration)
	case !l.lendable():
		return fmt.Errorf("resourcelock: update %q: %w for the next %v",
			l.election.Name(), election.ErrNotElected, l.timings.loan())
	}
	now := time.Now()
	l.lent, l.until, l.keepUntil = l.lead, now.Add(l.timings.loan()), now.Add(l.ttl)
	return nil
}

// RecordEvent learns that the elector has stopped. Its work is told a moment later: the reserve is for that.
func (l *Lock) RecordEvent(event string) {
	if event == "stopped leading" {
		l.mu.Lock()
		defer l.mu.Unlock()
		if end := time.Now().Add(l.timings.RetryPeriod); end.Before(l.until) {
			l.until = end
		}
	}
}

// changed wakes whoever waits for a change.
func (l *Lock) changed() {
	close(l.wake)
	l.wake = make(chan struct{})
}

// await waits for a change, until one of the channels tells. Meanwhile it gives l.mu up.
func (l *Lock) await(done <-chan struct{}, limit <-chan time.Time) {
	wake := l.wake
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-wake:
	case <-done:
	case <-limit:
	}
}

// Timings are the three durations that the elector of a lock must have, by client-go's names: see
// [Lock.Timings]. They follow from the manager's TTL. They cost no call of the store, so they are short.
type Timings struct {
	// LeaseDuration identifies the timings: an Update that shows another one fails. Nothing
	// expires by it. It is the next whole second after RenewDeadline, so 1 s with a TTL below 20 s.
	LeaseDuration time.Duration

	// RenewDeadline is how long an elector retries before it stops: 2 * RetryPeriod.
	RenewDeadline time.Duration

	// RetryPeriod is the time between two Updates: TTL/40, at most 1 s.
	RetryPeriod time.Duration
}

// loan is how much of the lease an Update needs: while the elector believes in it, and a reserve.
func (t Timings) loan() time.Duration { return t.RetryPeriod + t.RenewDeadline + t.RetryPeriod }

// timingsOf returns the timings for a manager's TTL. A leader that renews as by default always has enough
// left of its lease for a loan.
func timingsOf(ttl time.Duration) Timings {
	t := Timings{RetryPeriod: min(ttl/40, time.Second)}
	t.RenewDeadline = 2 * t.RetryPeriod
	t.LeaseDuration = t.RenewDeadline.Truncate(time.Second) + time.Second
	return t
}

func invalid(format string, values ...any) error {
	return fmt.Errorf("resourcelock: %w: "+format, append([]any{backend.ErrInvalid}, values...)...)
}

// start begins a campaign: one call of Run, whose leadership the lock lends. It ends when the
// leadership ends, or when the elector no longer asks.
func (l *Lock) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() {
		defer cancel()
		err := l.election.Run(ctx, l.hold)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cancel = nil
		if !errors.Is(err, election.ErrNotReleased) && !errors.Is(err, context.Canceled) {
			l.err = err
		}
		l.changed()
	}()
}

func (l *Lock) endCampaign() {
	if l.cancel != nil {
		l.cancel()
	}
}

// hold is the lead function. Until it returns, the manager does not release the lease: so it returns when the
// elector has stopped, and its work has had time to end.
func (l *Lock) hold(ctx context.Context, lead *election.Leadership) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	claim := l.timings.LeaseDuration + 3*l.timings.RetryPeriod // an elector that still asks does so by then
	l.lead, l.keepUntil = lead, time.Now().Add(claim)
	l.changed()
	for ctx.Err() == nil && time.Now().Before(l.keepUntil) {
		l.await(ctx.Done(), time.After(time.Until(l.keepUntil)))
	}

	l.lead = nil
	l.endCampaign() // else the process would bid again; the elector's next Get begins another campaign
	l.changed()
	if l.lent != lead {
		return nil
	}
	end := l.keepUntil // the elector has stopped before, but who knows about its work?
	why, ended := errors.AsType[*election.EndError](context.Cause(ctx))
	if ended && why.Reason == election.ReasonLeft { // the program itself has closed the manager, or left
		end = l.until
	}
	l.mu.Unlock()
	time.Sleep(time.Until(end))
	l.mu.Lock()
	return nil
}
