package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// A plan is one transaction, and what it means when one of its writes cannot be
// made.
type plan struct {
	ops    []any
	failed []func() error // by write
}

func (p *plan) add(op any, failed func() error) {
	p.ops, p.failed = append(p.ops, op), append(p.failed, failed)
}

// over adds that nothing has changed since v was seen: in particular that its
// holder has not renewed the lease that was watched, and ends its leadership for good by
// deleting its node.
func (b *Backend) over(p *plan, s *session, election string, v *view) {
	again := func() error { s.cache.forget(children, b.layout.lock(election)); return nil }
	p.add(&zk.CheckVersionRequest{Path: b.layout.sessionOf(v.record.Holder.Session), Version: v.home}, again)
	p.add(&zk.DeleteRequest{Path: b.layout.node(election, v.node), Version: -1}, again)
}

// recorded adds the writing of a record.
func (b *Backend) recorded(ctx context.Context, p *plan, s *session, r *record, v *view) {
	path := b.layout.recordOf(r.Election)
	again := func() error { s.cache.forget(data, path); return nil }
	if v.record == nil {
		p.add(&zk.CreateRequest{Path: path, Data: r.encode(), Acl: b.acl}, func() error {
			again()
			return b.parents(ctx, s, path, false) // somebody may have deleted all records
		})
	} else {
		p.add(&zk.SetDataRequest{Path: path, Data: r.encode(), Version: v.version}, again)
	}
}

// run makes the transaction. done is false if it was not made and what it rests on
// must be seen again.
func (p *plan) run(ctx context.Context, s *session, begin, end func()) (results []zk.MultiResponse, done bool, err error) {
	results, failed, err := s.writeAfter(ctx, begin, end, p.ops...)
	switch {
	case err == nil:
		return results, true, nil
	case failed >= 0 && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists)):
		return nil, false, p.failed[failed]()
	}
	return nil, false, err
}

// grant makes the grant, and takes over from a holder that is there. done is false if
// something has changed since v was seen.
func (b *Backend) grant(ctx context.Context, s *session, id int64, bid backend.Bid, v *view) (l backend.Lease, done bool, err error) {
	now, o, election := s.now(), b.mine(bid.Election), bid.Election
	r, last := &record{Election: election}, uint64(0)
	if v.record != nil {
		r = v.record.clone()
		last = r.Term
	}
	term, err := backend.NextTerm(last, v.unsure || v.record == nil && v.deleted.any(), bid.MinTerm, now)
	if err != nil {
		return l, false, err
	}
	grant := b.nextGrant()
	if v.unsure {
		r.Holder = nil // who was never told
	}
	r.finish(backend.Failed, now, v.lease.Lapsed())
	r.Term, r.Heartbeat, r.Request, r.Making = term, newHeartbeat(), nil, ""
	if v.record == nil {
		r.Making = v.deleted.String()
	}
	r.Holder = &holder{
		ID: bid.Candidate.ID, Nonce: bid.Candidate.Nonce, Address: bid.Candidate.Address, Metadata: bid.Candidate.Metadata,
		TTL: duration(bid.TTL), Renew: duration(bid.Renew), Elected: now.UTC(),
		Node: o.node, Session: sessionName(id), Grant: grant,
	}
	r.MovedTo = v.lease.MovedTo
	var p plan
	alone := v.underSeal(b) // without a node
	begin, end, fresh := func() {}, func() {}, o.node == "" && !alone
	switch {
	case alone:
		o = own{asked: underSeal, node: underSeal, session: id}
		r.Holder.Node = underSeal
		if err := b.claim(s, election, func(now *own) { o.pending = now.pending; *now = o }); err != nil {
			return l, false, err
		}
	case fresh:
		if err := b.room(id, election); err != nil {
			return l, false, err
		}
		request, asked := b.lockNode(bid)
		r.Holder.Node = asked
		if err := b.claim(s, election, func(o *own) { *o = own{asked: asked, session: id, pending: o.pending} }); err != nil {
			return l, false, err
		}
		begin, end = b.account(election)
		p.add(request, func() error { return b.parents(ctx, s, request.Path, true) })
	default:
		if b.layout.kind != Node {
			r.Holder.Node = o.asked
		}
		p.add(&zk.CheckVersionRequest{Path: b.layout.node(election, o.node), Version: -1}, func() error {
			b.note(election, func(now *own) { clearNode(now, o) })
			s.cache.forget(children, b.layout.lock(election))
			return nil
		})
	}
	// The session by which all of this goes, which may have ended.
	home := s.homeOf(id)
	p.add(&zk.CheckVersionRequest{Path: b.layout.sessionOf(sessionName(id)), Version: -1}, func() error { s.homeless(id); return errEnded })
	if v.held() && v.node != o.node {
		b.over(&p, s, election, v)
	}
	if v.pinned {
		path := b.layout.sessionOf(v.record.Holder.Session)
		p.add(&zk.CheckVersionRequest{Path: path, Version: v.home}, func() error { s.cache.forget(once, path); return nil })
	}
	if v.queue.sealed {
		p.add(&zk.CheckVersionRequest{Path: b.layout.sealOf(election), Version: v.queue.version}, func() error { b.forgetSeal(s, election); return nil })
	}
	b.recorded(ctx, &p, s, r, v)
	results, done, err := p.run(ctx, s, begin, end)
	if !done {
		if fresh && (err == nil || isNamed(err) || errors.Is(err, errEnded)) { // it was not made
			b.note(election, (*own).reset)
		}
		return l, false, err
	}
	version := int32(0)
	if stat := results[len(results)-1].Stat; stat != nil {
		version = stat.Version
		s.at(stat)
	}
	if fresh {
		made := results[0].String
		o = own{asked: r.Holder.Node, node: strings.Clone(made[strings.LastIndexByte(made, '/')+1:]), session: id}
		b.note(election, func(now *own) { now.node = o.node })
	}
	if r.Making != "" {
		if version, done, err = b.confirm(ctx, s, r); !done {
			return l, false, err
		}
	}
	if fresh {
		if !s.cache.stands(v.queue.place) || !isNext(o.node, o.asked, v.queue.made) {
			if done, err := b.verify(ctx, s, bid, o, r, version, v.queue.sealed); err != nil || !done {
				return l, false, err
			}
		}
	}
	if b.layout.kind == Node && !alone {
		if _, ok, err := b.still(ctx, s, election, o.node); err != nil || !ok {
			if !ok && err == nil {
				b.note(election, func(now *own) { clearNode(now, o) })
			}
			return l, false, err
		}
		if err := b.tellLast(ctx, s, bid); err != nil {
			return l, false, err
		}
	}
	b.note(election, func(now *own) {
		if now.node == o.node {
			now.term, now.grant, now.home, now.version, now.record = term, grant, home, version, r
		}
	})
	l = r.lease()
	l.Holder, l.TTL, l.Renew, l.Ref = bid.Candidate, bid.TTL, bid.Renew, o.node
	l.Heartbeat = (*group)(nil).heartbeat(r.Heartbeat, home, election)
	return l, true, nil
}

// isNext reports whether the server gave the next number, after so many nodes that were
// made in a queue, to a node for which it was asked: see the package documentation, "What
// could two processes each believe?". Above 2^30 nodes what the stat tells is no count.
func isNext(node, asked string, made int32) bool {
	return node == fmt.Sprintf("%s%010d", asked, made)
}

// confirm makes a grant whole that has made the record. A node that is made has the
// version 0, whatever stood there before: if there was a record after the bid has looked
// for one, and somebody has deleted it, its holder would take this one for its own, and
// renew. So nobody renews under version 0. That no record was deleted since is read after
// this one is there, and then it is written once more. Until then it grants nothing, and if
// that is never done everybody waits for the longest TTL before it is written.
func (b *Backend) confirm(ctx context.Context, s *session, r *record) (version int32, done bool, err error) {
	now, err := b.deletions(ctx, s)
	if err != nil || now.String() != r.Making {
		return 0, false, err
	}
	r.Making, r.Heartbeat = "", newHeartbeat()
	var p plan
	b.recorded(ctx, &p, s, r, &view{record: r})
	results, done, err := p.run(ctx, s, func() {}, func() {})
	if !done {
		return 0, false, err
	}
	stat := results[0].Stat
	if stat == nil {
		return 0, false, fmt.Errorf("%w: the servers have answered a write without its outcome", backend.ErrUnavailable)
	}
	s.at(stat)
	return stat.Version, true, nil
}

// verify makes sure, after a grant that has made our node, that no member of
// another program has come before it: who does not know of the record would lead.
// Whoever comes later is behind, and behind a seal nobody leads.
func (b *Backend) verify(ctx context.Context, s *session, bid backend.Bid, o own, r *record, version int32, sealed bool) (done bool, err error) {
	q, err := s.cache.plain(ctx, children, b.layout.lock(bid.Election))
	if err != nil {
		return false, err
	}
	nodes := q.children
	switch foreign := b.layout.firstForeign(nodes); {
	case !slices.Contains(nodes, o.node): // deleted by somebody's hand
		b.note(bid.Election, func(now *own) { clearNode(now, o) })
		return false, nil
	case foreign != "" && !sealed && b.layout.before(foreign, o.node):
		return false, b.withdraw(ctx, s, bid, r.clone(), version)
	}
	return true, nil
}

// withdraw takes back a grant that nobody was told of. Our node stays in the queue.
func (b *Backend) withdraw(ctx context.Context, s *session, bid backend.Bid, r *record, version int32) error {
	r.Holder, r.Heartbeat, r.Making = nil, newHeartbeat(), ""
	var p plan
	b.recorded(ctx, &p, s, r, &view{record: r, version: version})
	_, _, err := p.run(ctx, s, func() {}, func() {})
	return err
}

// evict ends the leadership of a holder that has not renewed for its TTL, for the good
// of a member of another program that stands behind it.
func (b *Backend) evict(ctx context.Context, s *session, id int64, bid backend.Bid, v *view) error {
	r := v.record.clone()
	r.finish(backend.Failed, s.now(), v.lease.Lapsed())
	r.Heartbeat = newHeartbeat()
	var p plan
	b.over(&p, s, bid.Election, v)
	b.recorded(ctx, &p, s, r, v)
	_, _, err := p.run(ctx, s, func() {}, func() {})
	return err
}

// still reports whether the node at a fixed path is the one that we made, and what it
// holds. It is asked after a write: what it reads is not older than that.
func (b *Backend) still(ctx context.Context, s *session, election, node string) (r reading, ok bool, err error) {
	r, err = s.cache.plain(ctx, data, b.layout.lock(election))
	if node == underSeal {
		_, ok = readSeal(r)
	} else {
		ok = !r.missing && nodeName(r) == node
	}
	return r, err == nil && ok, err
}

// nextGrant returns a number for a grant.
func (b *Backend) nextGrant() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.granted++
	return b.granted
}
