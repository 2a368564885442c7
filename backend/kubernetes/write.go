package kubernetes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
)

// rounds is how often a call tries again when somebody else has written the Lease first.
const rounds = 8

// errMangled says that the API server has kept something else than what was sent.
var errMangled = fmt.Errorf("%w: the API server has changed the Lease that was written; an admission webhook must leave the spec and the annotations of Leases alone", backend.ErrDenied)

// send creates or replaces a Lease. A replacement is conditional on the UID and resourceVersion of l.
// The error of a refusal is that of the client: see conflict. What was not stored as it was sent is an
// error, too.
func (b *Backend) send(ctx context.Context, l *coordination.Lease) (written *coordination.Lease, err error) {
	m := b.now()
	if l.UID == "" {
		written, err = b.client.Create(ctx, l, meta.CreateOptions{})
	} else {
		written, err = b.client.Update(ctx, l, meta.UpdateOptions{})
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	if written.ResourceVersion != l.ResourceVersion { // it is the same if nothing was to be changed
		err = b.notBefore(&m, "", versionOf(written.ResourceVersion))
	}
	b.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case l.UID != "" && l.UID != written.UID, specText(&l.Spec) != specText(&written.Spec):
		return nil, errMangled
	}
	for key, text := range l.Annotations {
		if written.Annotations[key] != text {
			return nil, errMangled
		}
	}
	return written, nil
}

// A change is what is to be written over an election's Lease as it was read.
type change struct {
	record *record // nil: the record stays
	beside bool    // the spec stays, since only a request is written
	touch  bool    // nothing changes but the resourceVersion
}

// write writes a change over the Lease in s, and returns the state that follows.
func (b *Backend) write(ctx context.Context, s *state, c change) (state, error) {
	l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: s.name}}
	if s.lease != nil {
		l = s.lease.DeepCopy()
	}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	if c.touch {
		l.Annotations[touchKey] = string(backend.NewNonce())
	}
	if c.record != nil {
		if l.Labels == nil {
			l.Labels = map[string]string{}
		}
		l.Labels[kindKey] = kindElection
		c.record.Write = rand.Int64()
		l.Annotations[recordKey] = c.record.encode()
		if !c.beside {
			l.Spec = c.record.spec()
		}
	}
	written, err := b.send(ctx, l)
	if err != nil {
		return state{}, err
	}
	o := newObject(written, time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(s.name, o)
	return b.classify(s.Election, o), nil
}

// update reads an election, and writes what decide returns of it, until nobody else has written the
// Lease in between. It begins with what was read last, if decide has something to write over that.
// decide returns nil if nothing is to be written. The state is that which decide saw last, or that
// after the write.
func (b *Backend) update(ctx context.Context, election string, decide func(s *state) *change) (s state, written bool, err error) {
	s, ok := b.remembered(election)
	for range rounds {
		var c *change
		if ok {
			c = decide(&s)
		}
		if c == nil {
			if s, err = b.readOne(ctx, election); err != nil {
				return s, false, err
			}
			if c = decide(&s); c == nil {
				return s, false, nil
			}
		}
		after, err := b.write(ctx, &s, *c)
		switch {
		case err == nil:
			return after, true, nil
		case !conflict(err):
			return s, false, b.fail(err)
		}
		ok = false
	}
	return s, false, errBusy
}
