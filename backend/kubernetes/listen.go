package kubernetes

import (
	"context"
	"strconv"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	events "k8s.io/apimachinery/pkg/watch"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/client"
)

// A watch is a stream of all changes of Leases in the namespace, but of those of members. It goes on
// between calls of Listen: to begin one for each call would cost as many requests as polling.
type watch struct {
	cancel  context.CancelFunc
	version uint64        // all changes up to this one were told
	told    chan struct{} // closed, and replaced, with each change; closed at the end
	err     error         // why it has ended; nil: the API server ends each, now and then
}

// Listen implements [backend.Backend]. It returns at once for anything but a renewal, and a moment after the
// first of several renewals, so that a leader of many elections does not wake its followers for each.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	what := backend.Describe("listen to", len(seen), seen[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return err
	}
	err := b.listen(ctx, seen)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.wrap(what, err)
}

func (b *Backend) listen(ctx context.Context, seen []backend.Lease) error {
	names := b.namesOf(seen)
	w, err := b.watching(ctx, names)
	if err != nil {
		return err
	}
	for {
		b.mu.Lock()
		told, ended := w.told, b.watch != w
		renewed, more := b.news(names, seen)
		b.mu.Unlock()
		switch {
		case more:
			return nil
		case ended:
			return w.err
		case renewed:
			client.Pause(ctx, 20*time.Millisecond) // for renewals of other elections
			return nil
		}
		select {
		case <-told:
		case <-ctx.Done():
			return nil
		}
	}
}

// news reports what has changed of the leases in seen: whether one was renewed, and whether there was more
// than renewals. names are those of their Leases. The caller holds b.mu.
func (b *Backend) news(names []string, seen []backend.Lease) (renewed, more bool) {
	for i := range seen {
		o := b.objects[names[i]]
		if o == nil {
			continue
		}
		s := b.classify(seen[i].Election, o)
		if !s.Differs(seen[i]) {
			continue
		}
		renewal := s.Lease
		renewal.Version = seen[i].Version
		if s.Vacant() || s.suspect || renewal.Differs(seen[i]) {
			return false, true
		}
		renewed = true
	}
	return renewed, false
}

// watching returns the watch, after it has begun one with a listing if there is none.
func (b *Backend) watching(ctx context.Context, names []string) (*watch, error) {
	b.mu.Lock()
	w := b.watch
	for _, name := range names {
		o := b.objects[name]
		// A watch that has not told for a second what another reading has shown hangs.
		if o == nil || w != nil && o.lease != nil && o.version > w.version && time.Since(o.at) > time.Second {
			b.stopWatch()
			w = nil
		}
	}
	b.mu.Unlock()
	if w != nil {
		return w, nil
	}
	_, version, err := b.list(ctx, names)
	if err != nil {
		return nil, err
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch == nil {
		inner, cancel := context.WithCancel(context.Background())
		b.watch = &watch{cancel: cancel, version: version, told: make(chan struct{})}
		go b.hear(inner, b.watch)
	}
	return b.watch, nil
}

// stopWatch ends the watch. The caller holds b.mu.
func (b *Backend) stopWatch() {
	if b.watch != nil {
		b.watch.cancel()
		b.watch = nil
	}
}

// hear makes the request of the watch, and notes what it tells, until it ends. A listener begins the next.
func (b *Backend) hear(ctx context.Context, w *watch) {
	stream, err := b.client.Watch(ctx, meta.ListOptions{
		LabelSelector: notMembers, ResourceVersion: strconv.FormatUint(w.version, 10),
	})
	if err == nil {
		for e := range stream.ResultChan() {
			l, ok := e.Object.(*coordination.Lease)
			if !ok {
				err = api.FromObject(e.Object)
				break
			}
			b.tell(w, e.Type, l)
		}
		stream.Stop()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch == w {
		b.watch, w.err = nil, err
	}
	close(w.told)
}

// tell keeps what the watch has told.
func (b *Backend) tell(w *watch, kind events.EventType, l *coordination.Lease) {
	o := newObject(l, time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch != w {
		return
	}
	w.version = max(w.version, o.version)
	if kind == events.Deleted {
		o = &object{version: o.version, at: o.at}
	}
	b.keep(l.Name, o)
	close(w.told)
	w.told = make(chan struct{})
}

// changesTold returns the leases that have changed, as the watch has told; nil: they must be read. So that
// some are unchanged it says only if it was told of others: then it is what the API server had a moment ago.
// A challenger that takes an unchanged lease over has the API server compare it.
func (b *Backend) changesTold(seen []backend.Lease) (changed []backend.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch == nil {
		return nil
	}
	for i := range seen {
		o := b.objects[b.names.election(seen[i].Election)]
		if seen[i].Version == "" || o == nil || o.version > b.watch.version {
			return nil
		}
		s := b.classify(seen[i].Election, o)
		if s.suspect {
			return nil
		}
		if s.Differs(seen[i]) {
			changed = append(changed, s.Lease)
		}
	}
	return changed
}
