package migration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// A pair is one election as last read from both stores.
type pair struct {
	half        [2]half       // by side
	combined    backend.Lease // as this process must treat it; made anew when a half changes
	preflighted bool          // the new store would grant it to this process
}

// A half is the lease of one store.
type half struct {
	backend.Lease
	since time.Time // when it was first read in its present state
	told  uint64    // readings up to this number had begun when it was last told: theirs may be older
}

// known reports whether the lease has been read.
func (h *half) known() bool { return h.Election != "" }

// update stores a lease received at now, when so many readings had begun, and reports whether it has changed.
func (h *half) update(l backend.Lease, now time.Time, begun uint64) bool {
	was := h.Lease
	h.told = begun
	if h.Lease = l; !l.Unchanged(was) {
		h.since = now
	}
	return l.Differs(was)
}

// remaining is how much longer a challenger must observe this half before it bids.
func (h *half) remaining(now time.Time) time.Duration {
	if h.ObserveFor <= 0 {
		return h.ObserveFor
	}
	return max(h.ObserveFor-now.Sub(h.since), 0)
}

// sealRecorded reports whether the new store says that the old one is sealed.
func (b *Backend) sealRecorded(p *pair) bool {
	return p.half[newer].known() && p.half[newer].MovedFrom == b.names[older]
}

// UnsealedMark is the mark in a new store that members led by it while the old store of this
// name was not known to be sealed ([Options].Unsealed). It counts only for members with
// that option. No store has such a name.
func UnsealedMark(name string) string { return "unsealed " + name }

func (b *Backend) unsealedMark() string { return UnsealedMark(b.names[older]) }

// newDecides reports whether the new store alone decides who leads. If the new store is
// sealed itself, neither its record nor Unsealed counts.
func (b *Backend) newDecides(p *pair) bool {
	n := &p.half[newer]
	return b.stage == To && n.known() && n.MovedTo == "" && (b.unsealed || b.sealRecorded(p))
}

// ambiguous reports whether the new store has the name of the store from which the election came to the old
// store, but is another one. A seal in favour of that name would tell members of the earlier migration that
// the election goes back. If it is the same store, it is sealed in favour of the old one.
func (b *Backend) ambiguous(p *pair) bool {
	o, n := &p.half[older], &p.half[newer]
	return !b.newDecides(p) && o.known() && n.known() &&
		o.MovedTo == "" && o.MovedFrom == b.names[newer] && n.MovedTo != b.names[older]
}

// movedElsewhere returns the name of a third store to which another migration has moved the
// election, or "". Seals in favour of the two stores of this migration do not count.
func (b *Backend) movedElsewhere(p *pair) string {
	switch o, n := p.half[older].MovedTo, p.half[newer].MovedTo; {
	case n != "" && n != b.names[older]:
		return n
	case o != "" && o != b.names[newer] && !b.newDecides(p):
		return o
	}
	return ""
}

// combine makes the combined lease of a pair of which one half has changed.
func (b *Backend) combine(p *pair, now time.Time) {
	if !p.half[newer].known() || !p.half[older].known() && !b.newDecides(p) {
		return
	}
	v := p.half[newer].Lease
	if !b.newDecides(p) {
		v = b.combineBoth(p, now)
	}
	v.MovedTo, v.MovedFrom = b.movedElsewhere(p), "" // marks of this migration do not concern the manager
	p.combined = v
}

// combineBoth returns the lease for a process that needs both leases.
func (b *Backend) combineBoth(p *pair, now time.Time) backend.Lease {
	o, n := &p.half[older], &p.half[newer]
	v := n.Lease
	if o.Term > n.Term {
		v = o.Lease // for the end and the holder of the last leadership
	}
	v.Version = digest(o.Lease, n.Lease)

	leader := b.leader(p)
	v.Holder, v.TTL, v.Renew = backend.Candidate{}, 0, 0
	if leader != nil {
		v.Holder, v.TTL, v.Renew, v.Age = leader.Holder, leader.TTL, leader.Renew, leader.Age
	}

	// A nominee accepts as soon as one store shows the nomination, so the nomination may arrive in the other
	// store after the acceptance.
	v.Request = backend.Request{}
	for _, kind := range []backend.RequestKind{backend.Nominate, backend.Accept, backend.Depose} {
		for _, h := range []*half{o, n} {
			if h.Request.Kind == kind && h.Request.Term == v.Term {
				v.Request = h.Request
			}
		}
	}

	switch {
	case leader != nil && b.isOurs(leader) && leader.ObserveFor == 0:
		v.ObserveFor = 0 // left from an earlier bid of ours: the next bid completes or releases it
	case o.ObserveFor < 0 || n.ObserveFor < 0:
		v.ObserveFor = backend.ExpiresInStore
	default:
		v.ObserveFor = max(o.remaining(now), n.remaining(now))
	}
	return v
}

// leader returns the half that names the leader: the new one, or the old one if its holder needs no
// other lease (see readMembers). A process that needs both and holds one does not lead.
func (b *Backend) leader(p *pair) *half {
	o, n := &p.half[older], &p.half[newer]
	sealed := o.MovedTo != ""
	recorded := n.MovedTo == "" && (b.sealRecorded(p) || n.MovedFrom == b.unsealedMark())
	was := p.combined.Holder

	switch {
	case b.isOurs(n):
		return n
	case b.isOurs(o):
		return o
	case !n.Vacant() && (sealed || recorded || o.Holder.Nonce == n.Holder.Nonce):
		return n
	case !o.Vacant() && !sealed && !b.needsBoth[o.Holder.Nonce]:
		return o

	// The leader gives back one half after the other. Nobody else can lead until both are free, and
	// followers go on following.
	case was.Nonce != "" && o.Holder == was:
		return o
	case was.Nonce != "" && n.Holder == was:
		return n
	}
	return nil
}

// isOurs reports whether this process holds a lease.
func (b *Backend) isOurs(h *half) bool {
	me := b.owner.Nonce()
	return me != "" && h.Holder.Nonce == me
}

// note updates both halves from the answers to a call, and returns the combined lease.
func (b *Backend) note(t *attempt) backend.Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, now := b.pairOf(t.bid.Election), time.Now()
	changed := false
	for s, got := range t.got {
		if got.Outcome != backend.Unknown && got.Election != "" && p.half[s].update(got.Lease, now, b.begun) {
			changed = true
		}
	}
	if changed {
		b.combine(p, now)
	}
	return p.combined
}

// digest returns the Version of two leases, which changes with any change of either.
func digest(o, n backend.Lease) string {
	sum := sha256.New()
	for _, l := range []backend.Lease{o, n} {
		nonce := string(l.Holder.Nonce)
		fmt.Fprintf(sum, "%d %q %q %q %q\n", l.Term, l.Version, l.MovedTo, l.MovedFrom, nonce)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
