package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
)

// A view is what one look at an election has shown.
type view struct {
	lease   backend.Lease
	record  *record // nil: there is none, or it cannot be read
	version int32   // of the record
	deleted losses  // if there is none, or one that is unsure: which records were ever deleted, of this election or others
	unsure  bool    // the record may stand where another has stood whose holder believes to lead; see Backend.confirm
	bad     error   // why the record cannot be read
	node    string  // the holder's node, if it is there
	home    int32   // the version of its session's node, if the lease was watched by that
	pinned  bool    // there is no node of the holder's, and home counts all the same
	queue   queue
	deps    []*entry
}

// A glance is how to look at elections: one for all that are looked at together.
type glance struct {
	watch      bool         // leave watches, and go by those that stand
	heartbeats *memo        // read what the holders' sessions say of renewals; nil: do not
	after      func() error // what is read without a watch must wait for this; nil: for nothing
}

// wait waits until something may be read without a watch.
func (g glance) wait() error {
	if g.after == nil {
		return nil
	}
	return g.after()
}

// watching is the usual glance.
func watching() glance { return glance{watch: true, heartbeats: &memo{}} }

// A memo is what was read once for many: the nodes of sessions.
type memo struct {
	mu   sync.Mutex
	read map[string]func() (home, error)
}

// A home is a session's own node.
type home struct {
	reading
	heartbeats *heartbeats
}

func newHome(r reading, err error) (home, error) { return home{r, parseHeartbeats(r.data)}, err }

func (m *memo) get(path string, read func() (reading, error)) (home, error) {
	m.mu.Lock()
	f := m.read[path]
	if f == nil {
		f = sync.OnceValues(func() (home, error) { return newHome(read()) })
		if m.read == nil {
			m.read = map[string]func() (home, error){}
		}
		m.read[path] = f
	}
	m.mu.Unlock()
	return f()
}

// see looks at an election.
func (b *Backend) see(ctx context.Context, s *session, election string, g glance) (v view, err error) {
	for range 5 {
		v = view{}
		err = b.seeOnce(ctx, s, election, g, &v)
		if err != nil || !g.watch {
			break
		}
		// What is read piece by piece may be of two times. Then a watch has fired.
		if !s.cache.heard(v.deps) {
			break
		}
	}
	if err == nil {
		v.lease = backend.CleanLease(v.lease)
	}
	return v, err
}

func (b *Backend) seeOnce(ctx context.Context, s *session, election string, g glance, v *view) error {
	get := func(k kind, path string) (reading, error) {
		r, err := s.cache.get(ctx, k, path, g.watch)
		if err == nil && r.entry != nil {
			v.deps = append(v.deps, r.entry)
		}
		return r, err
	}
	if g.watch {
		s.cache.ahead(ctx, b.layout.lockKind(), b.layout.lock(election))
	}
	r, err := get(data, b.layout.recordOf(election))
	if err != nil {
		return err
	}
	v.lease = backend.Lease{Election: election}
	switch {
	case r.missing:
		// Only after it was found to be missing: a deletion counts before.
		if err := g.wait(); err != nil {
			return err
		}
		if v.deleted, err = b.deletions(ctx, s); err != nil {
			return err
		}
	default:
		v.version = r.stat.Version
		if v.record, v.bad = parseRecord(r.data, election); v.bad != nil {
			v.lease.Heartbeat = mix(uint64(r.stat.Mzxid), "unreadable")
			return nil
		}
		v.lease = v.record.lease()
		v.lease.Age = s.age(r.stat.Mtime)
		if v.record.Making != "" {
			if err := g.wait(); err != nil {
				return err
			}
			if v.deleted, err = b.deletions(ctx, s); err != nil {
				return err
			}
			if v.unsure = !v.record.held(b.guard.Nonce(), 0) || v.deleted.String() != v.record.Making; v.unsure {
				v.lease = backend.Lease{Election: election, Heartbeat: v.record.Heartbeat}
			}
		}
	}
	if v.queue, err = b.queued(ctx, s, election, g, get); err != nil {
		return err
	}
	if v.queue.sealed && v.lease.MovedTo == "" { // the record was deleted
		v.lease.MovedTo = v.queue.to
	}
	alone := time.Duration(0) // what a challenger must watch whom nobody else keeps out
	if rec := v.record; rec != nil && rec.Holder != nil && !v.unsure {
		decided := false
		if alone, decided, err = b.seeHolder(ctx, s, g, get, v); err != nil {
			return err
		}
		// A grant behind another program's node is about to be taken back; see verify.
		// That program leads.
		if early := v.held() && b.layout.kind != Node && v.queue.foreign != "" && rec.Holder.Nonce != b.guard.Nonce(); early {
			v.lease.Holder, v.lease.TTL, v.lease.Renew = backend.Candidate{}, 0, 0
		} else if decided {
			return nil
		}
	}
	if v.unsure || v.record == nil && v.deleted.any() {
		// There may have been a record, whose holder may believe to lead.
		alone = b.Guarantees().MaxTTL
		v.lease.Ref = fmt.Sprintf("%d records deleted", v.deleted.records+v.deleted.parents)
	}
	q := &v.queue
	if v.lease.ObserveFor = alone; q.blocked {
		v.lease.ObserveFor = backend.ExpiresInStore
	}
	switch {
	case !v.lease.Vacant():
		return nil
	case q.foreign == "":
		return b.seeLast(get, v)
	}
	ours := false
	if b.layout.kind == Node { // one of ours may not have a record yet
		owner, err := get(once, b.layout.sessionOf(sessionName(q.first.stat.EphemeralOwner)))
		if err != nil {
			return err
		}
		ours = !owner.missing
	}
	if !ours { // a member of another program leads
		l := &v.lease
		l.Holder.ID = foreignID(q.first.data, q.foreign)
		l.Ref = strconv.FormatInt(q.first.stat.Czxid, 16)
		l.Heartbeat = mix(l.Heartbeat, l.Ref)
		l.Age = s.age(q.first.stat.Ctime)
	}
	return nil
}

// losses tell which records were ever deleted. Somebody may have deleted their parent
// with all of them, and it may have been made again since: so they tell which parent it
// is that the records were deleted of, and what its own parent, the root, has lost.
type losses struct {
	parent           int64 // its czxid
	records, parents int
}

// any reports whether any record was ever deleted, or may have been.
func (l losses) any() bool { return l.records+l.parents > 0 }

func (l losses) String() string { return fmt.Sprintf("%x-%d", l.parent, l.records) }

func (b *Backend) deletions(ctx context.Context, s *session) (l losses, err error) {
	of := [...]string{b.layout.record, b.layout.root}
	var found [len(of)]reading
	var errs [len(of)]error
	each(len(of), func(i int) { found[i], errs[i] = s.cache.plain(ctx, data, of[i]) })
	lost := func(r reading) int { return int(r.stat.Cversion-r.stat.NumChildren) / 2 }
	return losses{found[0].stat.Czxid, lost(found[0]), lost(found[1])}, firstOf(errs[:])
}

// seeHolder looks at whom the record names as the holder. decided: that is all
// there is to see. If not, alone is for how long it may believe to lead.
func (b *Backend) seeHolder(ctx context.Context, s *session, g glance, get func(kind, string) (reading, error), v *view) (alone time.Duration, decided bool, err error) {
	rec, l := v.record, &v.lease
	h := rec.Holder
	if i := slices.IndexFunc(v.queue.names, func(name string) bool { return b.layout.is(h, name) }); i >= 0 {
		v.node = v.queue.names[i]
	}
	there, path := v.node != "", b.layout.sessionOf(h.Session)
	// The session's node changes at each renewal, which is read of when it is asked
	// for. If the lock node is gone it tells whether the holder lives.
	own := home{heartbeats: &heartbeats{}}
	if !there {
		own, err = newHome(get(once, path))
	} else if g.heartbeats != nil {
		own, err = g.heartbeats.get(path, func() (reading, error) {
			if err := g.wait(); err != nil {
				return reading{}, err
			}
			id, _ := s.present()
			sent := time.Now()
			r, err := s.cache.plain(ctx, once, path)
			if err == nil {
				s.answered(id, sent, byServer)
			}
			return r, err
		})
	}
	if err != nil {
		return 0, false, err
	}
	if there || !own.missing {
		l.Holder, l.TTL, l.Renew, l.Ref = h.candidate(), time.Duration(h.TTL), time.Duration(h.Renew), h.Node
		if there {
			l.Ref = v.node
		}
		renewed, made := own.heartbeats.find(h.Grant), own.stat.Czxid
		if renewed == nil && own.heartbeats.Nonce != h.Nonce {
			made = own.stat.Mzxid // somebody has written over it, and earlier heartbeats must not come back
		}
		if l.Heartbeat = renewed.heartbeat(rec.Heartbeat, made, rec.Election); renewed != nil {
			l.TTL, l.Renew, l.Age = max(time.Duration(renewed.TTL), 1), time.Duration(renewed.Renew), s.age(own.stat.Mtime)
		}
	}
	// Never shorter than the holder may trust any renewal so far.
	watch := max(time.Duration(h.TTL), l.TTL, time.Duration(own.heartbeats.Most))
	id, _ := s.present()
	switch {
	case there && h.Nonce == b.guard.Nonce() && h.Session == sessionName(id):
		return 0, true, nil // a leftover: free for us
	case there && (own.missing || b.layout.kind == Node || h.Nonce == b.guard.Nonce()):
		// There is nothing to watch, as somebody has deleted it; or nothing that could
		// be deleted with certainty that it is the holder's; or it is our own, of an
		// earlier session. The ensemble will.
		l.ObserveFor = backend.ExpiresInStore
		return 0, true, nil
	case there:
		l.ObserveFor, v.home = watch, own.stat.Version
		return 0, true, nil
	case !own.missing && h.Nonce == b.guard.Nonce():
		return 0, false, nil // somebody has deleted our node; we are not to wait for ourselves
	case !own.missing: // somebody has deleted its node, or it needs none
		v.home, v.pinned = own.stat.Version, v.underSeal(b)
		return watch, false, nil
	case v.underSeal(b): // then the session's node is all that tells of it, and somebody may have deleted that
		return watch, false, nil
	}
	// The ensemble has ended its session, and the leadership with it. But when it did is not
	// for sessions to tell: its holder may have closed it, servers that were started anew
	// with a smaller maxSessionTimeout end it early, and somebody may have deleted its
	// nodes. So it is watched for as long as the holder may trust it, at a fixed path
	// excepted, where nobody can watch before.
	l.Heartbeat = mix(rec.Heartbeat, "over")
	l.End, l.LastID, l.LastNonce = backend.Failed, h.ID, h.Nonce
	if b.layout.kind == Node || h.Nonce == b.guard.Nonce() {
		return 0, false, nil
	}
	return watch, false, nil
}

// held reports whether the holder's node is there.
func (v *view) held() bool { return v.node != "" }

// A queue is what stands at an election.
type queue struct {
	names   []string // of all nodes; at a fixed path: its czxid
	mine    bool     // a node of ours is among them
	lost    bool     // a node of ours, which should be, is not
	blocked bool     // a node of another program is before ours, or before where ours would be
	foreign string   // a node of another program that is the first of all, or "". At a fixed path: any that is not ours
	first   reading  // what it holds
	place   reading  // where it is, as it was before the queue was read; at a fixed path, and behind a seal: nothing
	made    int32    // how many nodes were ever made there
	seal
}

// queued reads what stands at an election.
func (b *Backend) queued(ctx context.Context, s *session, election string, g glance, get func(kind, string) (reading, error)) (q queue, err error) {
	id, _ := s.present()
	o := b.mine(election)
	ours := o.node != "" && o.session == id
	lock := b.layout.lock(election)
	if b.layout.kind == Node {
		r, err := get(data, lock)
		if err != nil || r.missing {
			return queue{lost: ours}, err
		}
		if seal, ok := readSeal(r); ok {
			return queue{seal: seal, mine: ours && o.node == underSeal, lost: ours && o.node != underSeal}, nil
		}
		name := nodeName(r)
		q = queue{names: []string{name}, first: r, mine: ours && name == o.node, lost: ours && name != o.node}
		if q.blocked = !q.mine; q.blocked {
			q.foreign = name // if its owner is
		}
		return q, nil
	}
	for range 5 {
		var at reading
		if g.watch { // who only looks grants nothing
			if at, err = get(place, lock); err != nil {
				return queue{}, err
			}
		}
		r, err := get(children, lock)
		if err != nil {
			return queue{}, err
		}
		q = queue{names: r.children, mine: ours && slices.Contains(r.children, o.node)}
		q.lost = ours && !q.mine
		if slices.Contains(r.children, sealChild) {
			// Nobody else leads, whoever stands there.
			r, err := get(once, lock+"/"+sealChild)
			if err == nil && r.missing {
				s.cache.forget(children, lock) // broken just now
				continue
			}
			q.seal, _ = readSeal(r)
			return q, err
		}
		first, foreign := b.layout.first(r.children), b.layout.firstForeign(r.children)
		q.blocked = foreign != "" && !(q.mine && b.layout.before(o.node, foreign))
		if int(r.stat.NumChildren) == len(r.children) {
			q.place, q.made = at, made(r.stat)
		}
		if foreign == "" || foreign != first {
			return q, nil
		}
		q.foreign = foreign
		if q.first, err = get(once, lock+"/"+foreign); err != nil || !q.first.missing {
			return q, err
		}
		s.cache.forget(children, lock) // it is gone
	}
	return queue{}, fmt.Errorf("%w: the nodes at %.200q change too quickly to be read", backend.ErrUnavailable, lock)
}

// made is how many nodes were ever made in a queue, which is the number of the next: each
// counts once when it is made, and once when it is deleted.
func made(stat zk.Stat) int32 { return (stat.Cversion + stat.NumChildren) / 2 }

// lockKind is how what stands at an election is read.
func (l *layout) lockKind() kind {
	if l.kind == Node {
		return data
	}
	return children
}

// first returns the child that is first, or "".
func (l *layout) first(names []string) (least string) {
	for _, n := range names {
		if least == "" || l.before(n, least) {
			least = n
		}
	}
	return least
}

// firstForeign returns the first child that is not ours, or "".
func (l *layout) firstForeign(names []string) (least string) {
	for _, n := range names {
		if !l.ours(n) && (least == "" || l.before(n, least)) {
			least = n
		}
	}
	return least
}

func nodeName(r reading) string { return strconv.FormatInt(r.stat.Czxid, 16) }

func sessionName(id int64) string { return fmt.Sprintf("%016x", uint64(id)) }

// foreignID is the id of a member that is not ours: what its node holds, or else
// the node's name.
func foreignID(data []byte, name string) string {
	if id := backend.Clean(string(data), backend.MaxID, false); id != "" {
		return id
	}
	return backend.Clean(name, backend.MaxID, false)
}

// age is how long ago something was written, by the servers' clock as far as it
// is known.
func (s *session) age(millis int64) time.Duration {
	return max(s.now().Sub(time.UnixMilli(millis)), 0)
}
