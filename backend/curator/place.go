package curator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/internal/ensemble"
)

// A claim is why this process has, or may have, nodes at one election's lock. Which it has, a view says: in a
// queue they have the prefix of its session, and a mark has its session as the owner.
type claim struct {
	wanted  time.Time // when a bid last needed it
	term    uint64    // in which the lock was taken, or may have been; 0: it only waits
	leaving bool      // it is being given up: until that is done, no bid may rely on its nodes
}

// want notes that a bid needs a claim, and in which term it takes the lock, unless that is 0. It reports
// false if the claim is being given up.
func (k *lock) want(election string, term uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.claims[election]
	if c == nil {
		c = &claim{}
		k.claims[election] = c
	}
	if c.leaving {
		return false
	}
	c.wanted, c.term = time.Now(), cmp.Or(term, c.term)
	return true
}

// untake notes that the lock was certainly not taken.
func (k *lock) untake(election string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.claims[election]; c != nil {
		c.term = 0
	}
}

var errPending = fmt.Errorf("%w: an earlier request has not been answered yet", backend.ErrUnavailable)

// queue returns the name of our node in the queue, or makes one and returns "": the next view has it.
func (k *lock) queue(ctx context.Context, v *view, o *beside.Owned) (node string, err error) {
	own := k.places(v)
	if own == nil {
		err = k.checkPathBytes(o.Election)
	}
	switch {
	case err != nil:
		return "", err
	case k.session.Late() || !k.want(o.Election, 0):
		return "", errPending
	case own != nil:
		return own[0], nil
	}
	_, err = k.life.write(ctx, v.session, k.newNode(v, o))
	return "", err
}

func (k *lock) Wait(ctx context.Context, owned []beside.Owned) error {
	if k.layout.kind == Node {
		return nil // who comes first has it
	}
	errs := make([]error, len(owned))
	ensemble.InParallel(len(owned), func(i int) {
		v, err := k.view(ctx, owned[i].Election)
		if err == nil {
			_, err = k.queue(ctx, v, &owned[i])
		}
		errs[i] = k.fail(fmt.Sprintf("queue for %.80q", owned[i].Election), err)
	})
	return backend.Join(errs...)
}

// withdraw gives up the places that no bid has needed for a while, and what could not be given up before.
// Once first, such a node would hold up the members of other programs behind it.
func (k *lock) withdraw(ctx context.Context) {
	var names []string
	var terms []uint64
	k.mu.Lock()
	for name, c := range k.claims {
		if c.leaving || c.term == 0 && time.Since(c.wanted) > k.session.Length/3 {
			c.leaving = true
			names, terms = append(names, name), append(terms, c.term)
		}
	}
	k.mu.Unlock()
	if names == nil || k.settle(ctx) != nil {
		return // the next call does it
	}
	ensemble.InParallel(len(names), func(i int) { k.leave(ctx, names[i], terms[i]) })
}

// settle returns nil if no earlier request of this process can change anything any more. Requests of one
// session are made in order, also on another connection, so none that was sent before a sync comes after it.
func (k *lock) settle(ctx context.Context) error {
	if k.session.Late() { // it may not be sent yet
		return errPending
	}
	return k.life.sync(ctx)
}

// leave removes the mark of a term with its lock node. If this process has no later claim, it also gives up
// its place in the queue, the only thing in term 0, and what a bid may have taken whose answer was lost.
//
// Several calls may give up one claim. When one of them has done so, the next bid may have made a claim with
// nodes of its own, which the others must leave alone. While there is still the same claim, no bid has added
// nodes since it was given up: so all that a view read before shows are those of this claim.
func (k *lock) leave(ctx context.Context, election string, term uint64) error {
	k.mu.Lock()
	c := k.claims[election]
	claimed := c != nil && (c.term == term || c.term != 0 && c.term < term)
	if claimed {
		c.leaving = true
	}
	k.mu.Unlock()

	for range 8 {
		v, err := k.view(ctx, election)
		if err != nil {
			return err
		}
		k.mu.Lock()
		claimed = claimed && k.claims[election] == c
		k.mu.Unlock()
		var marks []mark
		var places []string
		for _, m := range v.marks {
			if m.term == term || claimed && m.owner == v.session {
				marks = append(marks, m)
			}
		}
		if claimed {
			places = k.places(v)
		}

		failed := -1
		if ops := k.remove(v, election, marks, places, ""); ops != nil {
			failed, err = k.life.write(ctx, v.session, ops...)
		}
		switch {
		case err == nil && claimed:
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.claims[election] == c {
				delete(k.claims, election)
			}
			return nil
		case err == nil, failed < 0, !ensemble.IsUnmet(err):
			return err
		}
	}
	return errBusy
}

func (k *lock) Drop(ctx context.Context, owned []beside.Owned) error {
	if err := k.settle(ctx); err != nil {
		return k.fail("drop", err)
	}
	errs := make([]error, len(owned))
	ensemble.InParallel(len(owned), func(i int) {
		err := k.leave(ctx, owned[i].Election, owned[i].Term)
		errs[i] = k.fail(fmt.Sprintf("drop %.80q", owned[i].Election), err)
	})
	return backend.Join(errs...)
}

// maxPathBytes limits the paths of one session's nodes. Closing a session deletes all of its nodes in one
// transaction, whose paths must fit into what servers accept from each other (ZOOKEEPER-4306: 2 MB of paths
// took an ensemble down for good).
const maxPathBytes = 512 << 10

// checkPathBytes reports an error if the session cannot take another node and its mark.
func (k *lock) checkPathBytes(election string) error {
	bytes := func(name string) int {
		return len(k.layout.lockPath(name)) + 60 + len(k.layout.heldPath(name)) + 17
	}
	sum := bytes(election)
	k.mu.Lock()
	for name := range k.claims {
		sum += bytes(name)
	}
	k.mu.Unlock()
	if sum > maxPathBytes {
		return fmt.Errorf("%w: the nodes of a session would have %d bytes of paths, of %d: spread the"+
			" elections over several Backends, or shorten their paths", backend.ErrDenied, sum, maxPathBytes)
	}
	return nil
}
