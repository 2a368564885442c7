package kubernetes

import (
	"context"
	"math/rand/v2"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	events "k8s.io/apimachinery/pkg/watch"

	"github.com/go-election/go-election/backend"
)

// A watch is a stream of all changes of Leases in the namespace, but of those of members. It goes on
// between calls of Listen: to begin one for each call would cost as many requests as polling.
type watch struct {
	cancel  context.CancelFunc
	version uint64 // all changes up to this one were told
	ended   chan struct{}
	err     error // why it has ended; nil: it cannot tell what comes next
}

// A listener is a call of Listen that waits.
type listener struct {
	seen  map[string]*backend.Lease // by name of the Lease
	woken chan struct{}             // has one element if a change was told
	timer *time.Timer               // wakes a moment after the first renewal; nil: there was none
}

func (l *listener) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// Listen implements [backend.Backend]. It returns at once for anything but a renewal, and a moment after the
// first of several renewals, so that a leader of many elections does not wake its followers for each.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	what := about("listen to", len(seen), seen[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return err
	}
	err := b.listen(ctx, seen)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return wrap(what, err)
}

func (b *Backend) listen(ctx context.Context, seen []backend.Lease) error {
	l := &listener{seen: make(map[string]*backend.Lease, len(seen)), woken: make(chan struct{}, 1)}
	for i := range seen {
		l.seen[b.names.election(seen[i].Election)] = &seen[i]
	}
	w, err := b.watching(ctx, seen)
	if err != nil || w == nil {
		return err
	}
	b.mu.Lock()
	b.listeners[l] = true
	for name := range l.seen {
		b.tell(l, name)
	}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if delete(b.listeners, l); l.timer != nil {
			l.timer.Stop()
		}
	}()
	select {
	case <-l.woken:
		return nil
	case <-w.ended:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxLag is how long after another reading a watch must have told the same, or it hangs.
const maxLag = time.Second

// watching returns the watch, after it has begun one if there is none. It returns nil if a lease has
// changed before the watch began.
func (b *Backend) watching(ctx context.Context, seen []backend.Lease) (*watch, error) {
	b.mu.Lock()
	w := b.watch
	for i := range seen {
		o := b.objects[b.names.election(seen[i].Election)]
		if w != nil && (o == nil || o.lease != nil && o.version > w.version && time.Since(o.at) > maxLag) {
			b.stopWatch()
			w = nil
		}
	}
	b.mu.Unlock()
	if w != nil {
		return w, nil
	}
	states, version, err := b.list(ctx, electionsOf(seen))
	if err != nil {
		return nil, err
	}
	for i := range states {
		if states[i].Differs(seen[i]) {
			return nil, nil
		}
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.watch != nil:
		return b.watch, nil
	case b.highest < version: // the store went back meanwhile
		return nil, errBack
	}
	if err := b.owner.Admit(""); err != nil { // closed meanwhile
		return nil, err
	}
	inner, cancel := context.WithCancel(context.Background())
	b.watch = &watch{cancel: cancel, version: version, ended: make(chan struct{})}
	go b.hear(inner, b.watch)
	return b.watch, nil
}

// stopWatch ends the watch. The caller holds b.mu.
func (b *Backend) stopWatch() {
	if b.watch != nil {
		b.watch.cancel()
		b.watch = nil
	}
}

// hear notes what the watch tells, until it ends. The API server ends it after some minutes: then a listener reads, and
// another one begins.
func (b *Backend) hear(ctx context.Context, w *watch) {
	defer close(w.ended)
	err := b.stream(ctx, w)
	if ctx.Err() == nil {
		w.err = err
	}
	w.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch == w {
		b.watch = nil
	}
}

// stream makes the request of the watch. It returns nil if the API server has ended it, or no longer knows the changes
// after that version.
func (b *Backend) stream(ctx context.Context, w *watch) error {
	timeout := int64(300 + rand.IntN(300))
	o := meta.ListOptions{LabelSelector: notMembers, ResourceVersion: formatVersion(w.version), TimeoutSeconds: &timeout}
	stream, err := b.client.Watch(ctx, o)
	if err != nil {
		return b.watchError(err)
	}
	defer stream.Stop()
	for e := range stream.ResultChan() {
		if e.Type == events.Error {
			return b.watchError(api.FromObject(e.Object))
		}
		if l, ok := e.Object.(*coordination.Lease); ok {
			b.told(w, e.Type, l)
		}
	}
	return nil
}

func (b *Backend) watchError(err error) error {
	if api.IsResourceExpired(err) || api.IsGone(err) {
		return nil
	}
	return b.fail(err)
}

// told keeps what the watch has told, and wakes the listeners that wait for it.
func (b *Backend) told(w *watch, kind events.EventType, l *coordination.Lease) {
	o := newObject(l, time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch != w {
		return
	}
	w.version = max(w.version, o.version)
	b.highest = max(b.highest, o.version)
	if l.Name == b.names.census() {
		c := newCensus(l)
		if kind == events.Deleted {
			c = nil
		}
		b.keepCensus(c, o.version)
		return
	}
	b.noteRecord(l.Name, o)
	if !b.followed[l.Name] {
		return
	}
	if kind == events.Deleted {
		o = &object{version: o.version, at: o.at}
	}
	b.keep(l.Name, o)
	for listener := range b.listeners {
		b.tell(listener, l.Name)
	}
}

// lull is for how long a listener waits, after a renewal, for those of other elections.
const lull = 20 * time.Millisecond

// tell wakes a listener if an election has changed since it was seen. The caller holds b.mu.
func (b *Backend) tell(l *listener, name string) {
	seen, o := l.seen[name], b.objects[name]
	if seen == nil || o == nil {
		return
	}
	s := b.classify(seen.Election, o)
	if !s.Differs(*seen) {
		return
	}
	renewed := s.Lease
	renewed.Version = seen.Version
	switch {
	case s.Vacant() || s.suspect || renewed.Differs(*seen): // more than a renewal
		l.wake()
	case l.timer == nil:
		l.timer = time.AfterFunc(lull, l.wake)
	}
}

// maxUnread is how often in a row Observe answers without a request.
const maxUnread = 16

// observeRemembered returns the leases that have changed, as the watch has told. That some are
// unchanged it says only if it was told of others: then it is what the API server had a moment ago. A
// challenger that takes an unchanged lease over has the API server compare it.
func (b *Backend) observeRemembered(seen []backend.Lease) (changed []backend.Lease, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.watch
	if w == nil || b.unread >= maxUnread {
		return nil, false
	}
	for i := range seen {
		o := b.objects[b.names.election(seen[i].Election)]
		if seen[i].Version == "" || o == nil || o.version > w.version {
			return nil, false
		}
		s := b.classify(seen[i].Election, o)
		if s.suspect {
			return nil, false
		}
		if s.Differs(seen[i]) {
			changed = append(changed, s.Lease)
		}
	}
	if changed == nil {
		return nil, false
	}
	b.unread++
	return changed, true
}
