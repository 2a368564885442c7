package curator

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/internal/ensemble"
)

// A place is what this process has, or may have, at one election's lock. In a queue that is a node, which is kept
// while the process bids, and withdrawn soon after its last bid.
type place struct {
	session int64     // that owns the node
	prefix  string    // of the name that was requested; "": none
	name    string    // of the node; "": there is none, or its request was not answered
	term    uint64    // in which the lock was taken, or may have been; 0: it only waits
	pending int       // requests that outlive their calls
	wanted  time.Time // when a bid last needed it
}

// placeOf returns a copy of the place at an election.
func (k *lock) placeOf(election string) place {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.places[election]; p != nil {
		return *p
	}
	return place{}
}

// update changes a place, and forgets one that is empty.
func (k *lock) update(election string, change func(*place)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.places[election]
	if p == nil {
		p = &place{}
		k.places[election] = p
	}
	change(p)
	if p.prefix == "" && p.name == "" && p.term == 0 && p.pending == 0 {
		delete(k.places, election)
	}
}

// begin notes a request that is about to be made, and returns what to call when it is answered.
func (k *lock) begin(election string, change func(*place)) (done func()) {
	k.update(election, func(p *place) { change(p); p.pending++ })
	return func() { k.update(election, func(p *place) { p.pending-- }) }
}

// placeIn returns the name of our node, if a view has it.
func (k *lock) placeIn(v *view, election string) string {
	p := k.placeOf(election)
	if p.name != "" && p.session == k.session.Connection().ID && slices.Contains(v.names, p.name) {
		return p.name
	}
	return ""
}

// ensurePlace returns the name of our node in a queue with these names, and makes one if there is none.
func (k *lock) ensurePlace(ctx context.Context, o *beside.Owned, names []string) (name string, fresh bool, err error) {
	p := k.placeOf(o.Election)
	if p.pending > 0 {
		return "", false, errPending
	}
	if p.prefix != "" && p.name == "" {
		if p, err = k.find(ctx, o.Election, p); err != nil {
			return "", false, err
		}
	}
	if p.name != "" && p.session == k.session.Connection().ID && slices.Contains(names, p.name) {
		k.update(o.Election, func(p *place) { p.wanted = time.Now() })
		return p.name, false, nil
	}
	if err := k.checkPathBytes(o.Election); err != nil {
		return "", false, err
	}
	for range 3 {
		node := k.newNode(o)
		done := k.begin(o.Election, func(p *place) {
			*p = place{prefix: path.Base(node.Path), wanted: time.Now(), pending: p.pending}
		})
		results, id, failed, err := k.life.write(ctx, done, node)
		k.forget(o.Election)
		switch {
		case err == nil:
			name = strings.Clone(path.Base(results[0].String))
			k.update(o.Election, func(p *place) { p.name, p.session = name, id })
			return name, true, nil
		case failed >= 0: // it was not made
			k.update(o.Election, func(p *place) { *p = place{pending: p.pending} })
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return "", false, err
		}
		if err := k.session.Make(ctx, ensemble.Parent(node.Path), nil); err != nil {
			return "", false, err
		}
	}
	return "", false, errBusy
}

// find looks for a node whose request was not answered, by its unique name. No request that was sent before the
// sync can still make it.
func (k *lock) find(ctx context.Context, election string, p place) (place, error) {
	if err := k.life.sync(ctx); err != nil {
		return p, err
	}
	r, err := k.session.ReadNode(ctx, ensemble.Children, k.layout.lockPath(election))
	if err != nil {
		return p, err
	}
	at := slices.IndexFunc(r.Children, func(name string) bool { return strings.HasPrefix(name, p.prefix) })
	if at < 0 {
		k.update(election, func(p *place) { *p = place{pending: p.pending} })
		return place{}, nil
	}
	n, err := k.session.ReadNode(ctx, ensemble.Data, k.layout.nodePath(election, r.Children[at]))
	if err != nil {
		return p, err
	}
	p.name, p.session = r.Children[at], n.Stat.EphemeralOwner
	k.update(election, func(now *place) { now.name, now.session = p.name, p.session })
	return p, nil
}

// Wait implements [beside.Queue].
func (k *lock) Wait(ctx context.Context, owned []beside.Owned) error {
	if k.layout.kind == Node {
		return nil // who comes first has it
	}
	errs := make([]error, len(owned))
	ensemble.InParallel(len(owned), func(i int) {
		v, err := k.view(ctx, owned[i].Election)
		if err == nil {
			_, _, err = k.ensurePlace(ctx, &owned[i], v.names)
		}
		errs[i] = k.fail(fmt.Sprintf("queue for %.80q", owned[i].Election), err)
	})
	return backend.Join(errs...)
}

// withdraw gives up the places that no bid has needed for a while. Once first, such a node would hold up the
// members of other programs behind it.
func (k *lock) withdraw(ctx context.Context) {
	var names []string
	var places []place
	k.mu.Lock()
	for name, p := range k.places {
		if p.term == 0 && p.pending == 0 && time.Since(p.wanted) > k.options.Session/3 {
			names, places = append(names, name), append(places, *p)
		}
	}
	k.mu.Unlock()
	ensemble.InParallel(len(names), func(i int) { k.leave(ctx, names[i], places[i]) }) // if that fails, the next call does it
}

// leave deletes a node that only waits, or may have been made.
func (k *lock) leave(ctx context.Context, election string, p place) (err error) {
	if p.prefix != "" && p.name == "" {
		if p, err = k.find(ctx, election, p); err != nil {
			return err
		}
	}
	if p.name != "" {
		_, _, _, err = k.life.write(ctx, func() {}, &zk.DeleteRequest{Path: k.layout.nodePath(election, p.name), Version: -1})
		k.forget(election)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	k.update(election, func(now *place) {
		if now.name == p.name {
			*now = place{pending: now.pending}
		}
	})
	return nil
}

// maxPathBytes limits the paths of one session's nodes. Closing a session deletes all of its nodes in one
// transaction, whose paths must fit into what servers accept from each other (ZOOKEEPER-4306: 2 MB of paths took
// an ensemble down for good).
const maxPathBytes = 512 << 10

// checkPathBytes reports an error if the session cannot take another node and its mark.
func (k *lock) checkPathBytes(election string) error {
	bytes := func(name string) int {
		return len(k.layout.lockPath(name)) + 60 + len(k.layout.heldPath(name)) + 17
	}
	sum := bytes(election)
	k.mu.Lock()
	for name := range k.places {
		sum += bytes(name)
	}
	k.mu.Unlock()
	if sum > maxPathBytes {
		return fmt.Errorf("%w: the nodes of this session would have %d bytes of paths, and servers may fail to close a session with more than %d: spread the elections over several Backends, or shorten their paths", backend.ErrDenied, sum, maxPathBytes)
	}
	return nil
}
