package kubernetes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	coordination "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// errMangled says that the API server has kept something else than what was sent.
var errMangled = fmt.Errorf("%w: the API server has changed the Lease that was written; "+
	"an admission webhook must leave spec, annotations and labels of Leases as they are", backend.ErrDenied)

// send creates or replaces a Lease, and remembers it if it is followed. A replacement is conditional on the
// UID and resourceVersion of l. The error of a refusal is that of the client: see conflict. What was not
// stored as it was sent is an error, too. Each write has something random or a time, so it gets a version.
func (b *Backend) send(ctx context.Context, l *coordination.Lease) (o *object, err error) {
	began := time.Now()
	var written *coordination.Lease
	if l.UID == "" {
		written, err = b.client.Create(ctx, l, meta.CreateOptions{})
	} else {
		written, err = b.client.Update(ctx, l, meta.UpdateOptions{})
	}
	if err != nil {
		return nil, err
	}
	same := equality.Semantic.DeepEqual(l.Spec, written.Spec) && l.Labels[kindKey] == written.Labels[kindKey]
	for key, text := range l.Annotations {
		same = same && written.Annotations[key] == text
	}
	if !same {
		return nil, errMangled
	}

	o = newObject(written, time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	return o, b.learn(began, map[string]*object{l.Name: o})
}

// An edit changes the Lease of an election before it is written.
type edit func(l *coordination.Lease)

// touch makes a write of which nothing but the resourceVersion is new.
func touch(l *coordination.Lease) {
	meta.SetMetaDataAnnotation(&l.ObjectMeta, touchKey, string(backend.NewNonce()))
}

// put writes the record, and the spec that belongs to it. Another holder is another transition.
func (r *record) put(l *coordination.Lease) {
	r.putBeside(l)
	before := l.Spec
	l.Spec = r.spec()
	l.Spec.LeaseTransitions = before.LeaseTransitions
	if id := holder(&l.Spec); id != "" && id != holder(&before) {
		next := ptr.Deref(before.LeaseTransitions, -1) + 1
		l.Spec.LeaseTransitions = new(max(0, next)) // after the greatest one comes 0
	}
}

// putBeside writes the record, and leaves the spec alone.
func (r *record) putBeside(l *coordination.Lease) {
	r.Write = rand.Int64()
	text := lease.Encode(r)
	meta.SetMetaDataAnnotation(&l.ObjectMeta, recordKey, text)
	meta.SetMetaDataAnnotation(&l.ObjectMeta, sumKey, digest(text))
}

// write writes an edit of the Lease in s, and returns the state that follows.
func (b *Backend) write(ctx context.Context, s *state, change edit) (state, error) {
	l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: s.name}}
	if s.lease != nil {
		l = s.lease.DeepCopy()
	}
	change(l)
	o, err := b.send(ctx, l)
	if err != nil {
		return state{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.classify(s.Election, o), nil
}

// A decision returns the edit that a call makes of an election, by its present state; nil: none.
type decision func(s *state) (edit, error)

// update decides on an election as it was read last, and writes the edit. If there is none, or somebody else
// has written the Lease first, it decides again, on the election as it reads it. It returns the state after
// the write, and true, or that which needs none.
func (b *Backend) update(ctx context.Context, election string, decide decision) (state, bool, error) {
	s, remembered := b.remembered(election)
	for range 9 { // again if somebody else has written the Lease first
		if !remembered {
			states, err := b.read(ctx, backend.Lease{Election: election})
			if err != nil {
				return s, false, err
			}
			s = states[0]
		}
		change, err := decide(&s)
		if err == nil && change != nil {
			var after state
			if after, err = b.write(ctx, &s, change); err == nil {
				return after, true, nil
			}
		}
		switch {
		case err != nil && !conflict(err):
			return s, false, err
		case err == nil && !remembered:
			return s, false, nil
		}
		remembered = false
	}
	return s, false, errBusy
}

// answer makes the answers to n bids or renewals, some of them at the same time: of returns the election of
// each, and what decides on it. What is written is granted.
func (b *Backend) answer(
	ctx context.Context, verb string, n int, of func(i int) (string, decision),
) ([]backend.Answer, error) {
	answers := make([]backend.Answer, n)
	client.InParallel(n, 16, func(i int) {
		election, decide := of(i)
		s, written, err := b.update(ctx, election, decide)
		if written && !s.own {
			err = errBack // noticed meanwhile
		}
		switch {
		case err != nil:
			answers[i].Err = b.wrap(backend.Describe(verb, 1, election), err)
		case written:
			answers[i] = backend.Answer{Lease: s.Lease, Outcome: backend.Granted, ValidFor: s.TTL}
		default:
			answers[i] = backend.Answer{Lease: s.Lease, Outcome: backend.Refused}
		}
	})
	if slices.ContainsFunc(answers, func(a backend.Answer) bool { return a.Outcome != backend.Unknown }) {
		return answers, nil
	}
	return answers, answers[0].Err
}
