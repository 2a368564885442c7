package migration

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// A pair is one election as both stores were last seen to have it.
type pair struct {
	old, new half
	view     backend.Lease // of both together; as it was when one of them last changed
	proven   bool          // the new store would let this process be granted it
}

// A half is one store's lease. since is when it was first received as it is.
type half struct {
	backend.Lease
	known bool
	since time.Time
}

// take notes a lease that was received at now, and reports whether it is news.
func (h *half) take(l backend.Lease, now time.Time) bool {
	if h.known && h.Unchanged(l) {
		old := h.Lease
		h.Lease = l
		return old.Holder != l.Holder || old.Request != l.Request
	}
	h.Lease, h.known, h.since = l, true, now
	return true
}

// left is how much longer a challenger must watch this half before it bids.
func (h *half) left(now time.Time) time.Duration {
	if h.ObserveFor <= 0 {
		return h.ObserveFor
	}
	return max(h.ObserveFor-now.Sub(h.since), 0)
}

// recorded reports whether the new store says that the old one is sealed.
func (b *Backend) recorded(p *pair) bool { return p.new.known && p.new.MovedFrom == b.oldName }

// Vouched is the record of an operator's word ([Options].Unsealed) about an old store of
// this name. It counts for who is given the word. No store is called that.
func Vouched(name string) string { return "unsealed " + name }

func (b *Backend) word() string { return Vouched(b.oldName) }

// alone reports whether the new store alone decides. Neither a record nor an operator's
// word counts in a store that elections have left since.
func (b *Backend) alone(p *pair) bool {
	return b.stage == To && p.new.known && p.new.MovedTo == "" && (b.unsealed || b.recorded(p))
}

// ambiguous reports whether the new store is called like the one from which the
// election came to the old store, and is another one. A seal in its favour would mean the
// way back to whoever is still on that road. Where both are one, the new store says that
// the election has gone to the old.
func (b *Backend) ambiguous(p *pair) bool {
	return !b.alone(p) && p.old.known && p.new.known && p.old.MovedTo == "" && p.old.MovedFrom == b.newName &&
		p.new.MovedTo != b.oldName
}

// elsewhere is the third store to which the election has moved, by another road than
// ours; empty if there is none. The stores of this road may be sealed in favour of each
// other.
func (b *Backend) elsewhere(p *pair) string {
	switch o, n := p.old.MovedTo, p.new.MovedTo; {
	case n != "" && n != b.oldName:
		return n
	case o != "" && o != b.newName && !b.alone(p):
		return o
	}
	return ""
}

// read brings the pairs of these elections up to date: both stores at the same
// time, but for stage To, where most elections need only the new one.
func (b *Backend) read(ctx context.Context, names []string) error {
	newer := func() error { return b.observe(ctx, b.new, names, func(p *pair) *half { return &p.new }) }
	older := func() error { return b.readOld(ctx, names) }
	if b.stage == To {
		if err := newer(); err != nil {
			return err
		}
		return older()
	}
	return atOnce(older, newer)
}

// atOnce runs two calls side by side and returns an error of one.
func atOnce(f, g func() error) error {
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = f() })
	err := g()
	wg.Wait()
	return cmp.Or(err, failed)
}

// readOld reads the old store, for the elections that it has a say in. At stage To
// those may be unknown for as long as it cannot be reached; others do not suffer.
func (b *Backend) readOld(ctx context.Context, names []string) error {
	need := names
	if b.stage == To {
		need = nil
		b.mu.Lock()
		for _, name := range names {
			if p := b.pairs[name]; p != nil && !b.alone(p) {
				need = append(need, name)
			}
		}
		b.mu.Unlock()
	}
	if len(need) == 0 {
		return nil
	}
	err := b.observe(ctx, b.old, need, func(p *pair) *half { return &p.old })
	if err != nil && b.stage == To && len(need) < len(names) {
		return nil
	}
	return err
}

// observe reads one store.
func (b *Backend) observe(ctx context.Context, store backend.Backend, names []string, of func(*pair) *half) error {
	seen := make([]backend.Lease, len(names))
	b.mu.Lock()
	for i, name := range names {
		p := b.pairs[name]
		if p == nil {
			p = &pair{}
			b.pairs[name] = p
		}
		if h := of(p); h.known {
			seen[i] = h.Lease
		} else {
			seen[i] = backend.Lease{Election: name}
		}
	}
	b.mu.Unlock()
	changed, err := store.Observe(ctx, seen)
	if err != nil {
		return err
	}
	strangers := b.strangers(changed)
	if store == b.old && strangers {
		if err := b.learn(ctx); err != nil {
			return err
		}
	}
	now := time.Now() // received
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range changed {
		p := b.pairs[l.Election]
		if p != nil && of(p).take(l, now) {
			b.combine(p, now)
		}
	}
	return nil
}

// combine makes the view of a pair of which one half has changed.
func (b *Backend) combine(p *pair, now time.Time) {
	if !p.new.known || !p.old.known && !b.alone(p) {
		return
	}
	v := p.new.Lease
	if !b.alone(p) {
		v = b.both(p, now)
	}
	v.MovedTo, v.MovedFrom = b.elsewhere(p), "" // the rest is an affair of the two stores
	p.view = v
}

// both is what a process that needs both leases sees.
func (b *Backend) both(p *pair, now time.Time) backend.Lease {
	o, n := &p.old, &p.new
	v := n.Lease
	if o.Term > n.Term {
		v = o.Lease // how the last leadership ended, and who it was
	}
	// A leader is named by the new store, or by the old one if that is all it
	// needs. Who has one of two leads nobody.
	var leads *half
	me := b.guard.Nonce()
	mine := func(h *half) bool { return me != "" && h.Holder.Nonce == me }
	switch {
	case mine(n):
		leads = n
	case mine(o):
		leads = o
	case !n.Vacant() && (o.MovedTo != "" || (b.recorded(p) || n.MovedFrom == b.word()) && n.MovedTo == "" || o.Holder.Nonce == n.Holder.Nonce):
		leads = n
	case !o.Vacant() && o.MovedTo == "" && b.stages[o.Holder.Nonce] != Both && b.stages[o.Holder.Nonce] != To:
		leads = o
	}
	v.Holder, v.TTL, v.Renew, v.Request = backend.Candidate{}, 0, 0, backend.Request{}
	if leads != nil {
		v.Holder, v.TTL, v.Renew, v.Age = leads.Holder, leads.TTL, leads.Renew, leads.Age
	}
	v.Term = max(o.Term, n.Term)
	for _, h := range []*half{o, n} {
		if h.Request.Kind != "" && h.Request.Term == v.Term && weight(h.Request.Kind) >= weight(v.Request.Kind) {
			v.Request = h.Request
		}
	}
	v.Heartbeat, v.Ref = digest(o.Lease, n.Lease)
	v.ObserveFor = max(o.left(now), n.left(now))
	switch {
	case leads != nil && mine(leads) && leads.ObserveFor == 0:
		v.ObserveFor = 0 // a leftover of ours: a bid completes it or drops it
	case o.ObserveFor < 0 || n.ObserveFor < 0:
		v.ObserveFor = backend.ExpiresInStore
	}
	return v
}

// weight orders requests that differ in the two stores. A consent is given as soon as one
// store shows the nomination, and in the other the nomination may come after it.
func weight(k backend.RequestKind) int {
	switch k {
	case backend.Nominate:
		return 1
	case backend.Accept:
		return 2
	case backend.Depose:
		return 3
	}
	return 0
}

// news notes what answers to a call have said of both halves, and returns the view.
func (b *Backend) news(election string, o, n *backend.Answer) backend.Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pairs[election]
	if p == nil {
		p = &pair{}
		b.pairs[election] = p
	}
	now, changed := time.Now(), false
	if o.Outcome != backend.Unknown && o.Election != "" {
		changed = p.old.take(o.Lease, now)
	}
	if n.Outcome != backend.Unknown && n.Election != "" {
		changed = p.new.take(n.Lease, now) || changed
	}
	if changed {
		b.combine(p, now)
	}
	return p.view
}

// digest stands for two leases: heartbeat changes when either does, ref only when either is
// another one, not when it is renewed.
func digest(o, n backend.Lease) (heartbeat uint64, ref string) {
	sum := sha256.New()
	for _, l := range []backend.Lease{o, n} {
		fmt.Fprintf(sum, "%d %q %q %q %q\n", l.Term, l.Ref, l.MovedTo, l.MovedFrom, l.Holder.Nonce)
	}
	d := sum.Sum(nil)
	ref = hex.EncodeToString(d[:16])
	fmt.Fprintf(sum, "%d %d\n", o.Heartbeat, n.Heartbeat)
	return binary.BigEndian.Uint64(sum.Sum(d[:0])) | 1, ref
}

// strangers reports whether one of these leases has a holder whose stage is not
// known. At stage From nobody's matters.
func (b *Backend) strangers(leases []backend.Lease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range leases {
		if _, known := b.stages[l.Holder.Nonce]; !known && !l.Vacant() && l.Holder.Nonce != b.guard.Nonce() {
			return true
		}
	}
	return false
}

// learn reads the stages of all members of the old store. A holder that is no
// member knows nothing of migrations: that is stage From.
func (b *Backend) learn(ctx context.Context) error {
	const page = 500
	stages := map[string]Stage{}
	for from := ""; ; {
		members, err := b.old.Members(ctx, from, page)
		if err != nil {
			return err
		}
		for _, m := range members {
			s := Stage(m.Stage)
			if s != Both && s != To {
				s = From
			}
			stages[m.Nonce] = s
		}
		if len(members) < page {
			break
		}
		from = members[len(members)-1].Nonce + "\x00"
	}
	b.mu.Lock()
	b.stages = stages
	b.mu.Unlock()
	return nil
}
