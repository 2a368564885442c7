package kubernetes

import (
	"strconv"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// A state is one election as it was read.
type state struct {
	backend.Lease
	*object
	name    string // of the Lease
	known   uint64 // the greatest term of it that this process has read
	ours    bool   // this module has written the Lease's spec last, and it may be the last grant
	suspect bool   // it may not be the last grant: deleted, edited, or from before the store went back
	own     bool   // ours, and held by this process
}

// classify derives the lease from an election's Lease: whether it is free, what a challenger must
// watch, and for how long. docs/design/kubernetes.md, "When a lease is free". The caller holds b.mu.
func (b *Backend) classify(election string, o *object) state {
	s := state{object: o, name: b.names.election(election)}
	s.known = b.terms[s.name]
	if o.lease == nil {
		s.classifyMissing(b, election)
		return s
	}

	r := s.record
	damaged := r != nil && (r.Election != election || r.Epoch != string(s.lease.UID) || r.Term < s.known)
	s.suspect = damaged || s.version <= b.backTo || r == nil && b.wasMade(s.name)
	if r == nil || damaged {
		r = &record{}
	}
	s.Lease = r.Lease(election)
	if r.Epoch != "" && r.wrote(&s.lease.Spec) {
		s.classifyOurs(b, r)
	} else {
		s.classifyForeign(b, r)
	}
	if s.suspect {
		s.ObserveFor = max(s.ObserveFor, b.greatestTTL())
		s.Version = "?" + digest(s.Version, b.back.String())
	}
	s.Lease = clean.Lease(s.Lease)
	return s
}

// classifyOurs is classify for a spec that this module has written.
func (s *state) classifyOurs(b *Backend, r *record) {
	s.ours, s.Age = !s.suspect, b.age(s.object, r.Written)
	s.Version = strconv.FormatUint(uint64(r.Heartbeat), 16)
	if r.vacant() {
		return
	}
	s.TTL = max(s.TTL, MinTTL)
	if s.own = s.ours && r.Nonce == string(b.owner.Nonce()); !s.own {
		s.ObserveFor = s.TTL
	}
}

// classifyMissing is classify for an election without a Lease. Its Version shows whether it was made
// and deleted again meanwhile.
func (s *state) classifyMissing(b *Backend, election string) {
	s.Lease = backend.Lease{Election: election, Version: "none"}
	if s.suspect = b.wasMade(s.name); !s.suspect {
		return
	}
	uid, made := "", int64(0)
	if o := b.objects[b.names.census()]; o != nil && o.census != nil {
		uid, made = string(o.lease.UID), o.census.Made[madeKey(s.name)]
	}
	s.ObserveFor = b.greatestTTL()
	s.Version = "?" + digest("none", uid, strconv.FormatInt(made, 10), b.back.String())
}

// classifyForeign is classify for a spec that another program has written: usually a member of
// client-go. It leads as long as it renews, and nobody before leaseDurationSeconds have passed since. r
// is the record beside it, empty if there is none.
func (s *state) classifyForeign(b *Backend, r *record) {
	spec := &s.lease.Spec
	s.Holder, s.TTL, s.Renew = backend.Candidate{}, 0, 0
	s.Version = "~" + digest(string(s.lease.UID), spec.String())
	if !r.vacant() {
		// The spec may have replaced a leadership of this module, whose leader may not have read that yet.
		// That a member of client-go has led meanwhile proves nothing: it believes a blank at once.
		s.ObserveFor = max(time.Duration(r.TTL), MinTTL)
		s.End, s.LastID = backend.Failed, r.ID
	}
	if spec.RenewTime != nil {
		s.Age = b.age(s.object, spec.RenewTime.Time)
	}
	if holder(spec) != "" {
		acquired := ptr.Deref(spec.AcquireTime, meta.MicroTime{}).UnixMicro()
		session := digest(string(s.lease.UID), holder(spec), strconv.FormatInt(acquired, 10))
		s.Holder = backend.Candidate{ID: holder(spec), Nonce: backend.Nonce("session " + session)}
		s.TTL = max(time.Duration(seconds(spec))*time.Second, MinTTL)
		written := *spec
		written.LeaseDurationSeconds = r.spec().LeaseDurationSeconds
		if s.TTL > MaxTTL && r.wrote(&written) { // only the duration was edited: nobody else has led
			s.TTL = b.greatestTTL()
		}
		s.ObserveFor = max(s.ObserveFor, s.TTL)
	}
	if spec.LeaseDurationSeconds == nil || holder(spec) == "" && seconds(spec) != 1 { // it was edited
		s.ObserveFor = max(s.ObserveFor, b.greatestTTL())
	}
	if s.ObserveFor == 0 { // a member of client-go has led, and released its lease
		s.End = backend.Released
	}
}

// age returns how long ago a Lease was written, by its writer's clock, but at least since it was received.
func (b *Backend) age(o *object, written time.Time) time.Duration {
	return max(time.Since(o.at), time.Since(written), 0)
}

// endLeadership writes how the present leadership, if there is one, ends into the record that follows. The
// history has the leaderships of this module.
func (s *state) endLeadership(next *record, how backend.End, now time.Time) {
	next.End, next.LastID, next.History = how, s.Holder.ID, nil
	if s.Vacant() {
		next.End, next.LastID = s.End, s.LastID
	}
	r := s.record
	switch {
	case r == nil || r.Election != s.Election:
		return
	case r.vacant():
		next.History = r.History
		return
	case !s.ours: // another program has led, or nobody knows who
		how = backend.Failed
	}
	expired := max(0, now.Sub(r.Written)-time.Duration(r.TTL))
	last := backend.Leadership{Term: r.Term, ID: r.ID, From: r.Elected}
	next.History = clean.Remember(r.History, last, how, now, expired)
}

// grant returns the record of a grant.
func (s *state) grant(bid *backend.Bid, term uint64, now time.Time) *record {
	c := clean.Candidate(bid.Candidate)
	r := &record{Record: lease.Record{
		Election: bid.Election, Epoch: string(s.lease.UID), Term: term,
		ID: c.ID, Nonce: string(c.Nonce), Address: c.Address, Metadata: c.Metadata,
		TTL: lease.Span(bid.TTL), Renew: lease.Span(bid.Renew), Heartbeat: lease.NewHeartbeat(),
		Elected: now, Written: now, MovedTo: s.MovedTo, MovedFrom: s.MovedFrom,
	}}
	s.endLeadership(r, backend.Failed, now)
	return r
}
