package zookeeper

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-election/go-election/backend"
)

// A view is what one look at an election has shown.
type snapshot struct {
	lease          backend.Lease
	record         *record        // nil: there is none, or it cannot be read
	version        int32          // of the record
	deleted        deletionCounts // if there is none, or one that is unsure: which records were ever deleted, of this election or others
	unconfirmed    bool           // the record may stand where another has stood whose holder believes to lead; see Backend.confirm
	unreadable     error          // why the record cannot be read
	holderNode     string         // the holder's node, if it is there
	sessionVersion int32          // the version of its session's node, if the lease was watched by that
	checkSession   bool           // there is no node of the holder's, and home counts all the same
	queue          queue
	entries        []*entry
}

// A glance is how to look at elections: one for all that are looked at together.
type readMode struct {
	watch     bool          // leave watches, and go by those that stand
	sessions  *sessionReads // read what the holders' sessions say of renewals; nil: do not
	afterSync func() error  // what is read without a watch must wait for this; nil: for nothing
}

// wait waits until something may be read without a watch.
func (mode readMode) waitForSync() error {
	if mode.afterSync == nil {
		return nil
	}
	return mode.afterSync()
}

// watching is the usual glance.
func watchedRead() readMode { return readMode{watch: true, sessions: &sessionReads{}} }

// see looks at an election.
func (b *Backend) takeSnapshot(ctx context.Context, s *session, election string, mode readMode) (snap snapshot, err error) {
	for range 5 {
		snap = snapshot{}
		err = b.takeSnapshotOnce(ctx, s, election, mode, &snap)
		if err != nil || !mode.watch {
			break
		}
		// What is read piece by piece may be of two times. Then a watch has fired.
		if !s.cache.changed(snap.entries) {
			break
		}
	}
	if err == nil {
		snap.lease = backend.CleanLease(snap.lease)
	}
	return snap, err
}

func (b *Backend) takeSnapshotOnce(ctx context.Context, s *session, election string, mode readMode, snap *snapshot) error {
	get := func(k kind, path string) (reading, error) {
		r, err := s.cache.get(ctx, k, path, mode.watch)
		if err == nil && r.entry != nil {
			snap.entries = append(snap.entries, r.entry)
		}
		return r, err
	}
	if mode.watch {
		s.cache.prefetch(ctx, b.layout.lockKind(), b.layout.lockPath(election))
	}
	r, err := get(nodeData, b.layout.recordPath(election))
	if err != nil {
		return err
	}
	snap.lease = backend.Lease{Election: election}
	switch {
	case r.missing:
		// Only after it was found to be missing: a deletion counts before.
		if err := mode.waitForSync(); err != nil {
			return err
		}
		if snap.deleted, err = b.readDeletions(ctx, s); err != nil {
			return err
		}
	default:
		snap.version = r.stat.Version
		if snap.record, snap.unreadable = parseRecord(r.data, election); snap.unreadable != nil {
			snap.lease.Heartbeat = mix(uint64(r.stat.Mzxid), "unreadable")
			return nil
		}
		snap.lease = snap.record.lease()
		snap.lease.Age = s.age(r.stat.Mtime)
		if snap.record.Unconfirmed != "" {
			if err := mode.waitForSync(); err != nil {
				return err
			}
			if snap.deleted, err = b.readDeletions(ctx, s); err != nil {
				return err
			}
			if snap.unconfirmed = !snap.record.heldBy(b.owner.Nonce(), 0) || snap.deleted.String() != snap.record.Unconfirmed; snap.unconfirmed {
				snap.lease = backend.Lease{Election: election, Heartbeat: snap.record.Heartbeat}
			}
		}
	}
	if snap.queue, err = b.readQueue(ctx, s, election, mode, get); err != nil {
		return err
	}
	if snap.queue.sealed && snap.lease.MovedTo == "" { // the record was deleted
		snap.lease.MovedTo = snap.queue.to
	}
	alone := time.Duration(0) // what a challenger must watch whom nobody else keeps out
	if rec := snap.record; rec != nil && rec.Holder != nil && !snap.unconfirmed {
		decided := false
		if alone, decided, err = b.readHolder(ctx, s, mode, get, snap); err != nil {
			return err
		}
		// A grant behind another program's node is about to be taken back; see verify.
		// That program leads.
		if early := snap.holderPresent() && b.layout.kind != Node && snap.queue.foreign != "" && rec.Holder.Nonce != b.owner.Nonce(); early {
			snap.lease.Holder, snap.lease.TTL, snap.lease.Renew = backend.Candidate{}, 0, 0
		} else if decided {
			return nil
		}
	}
	if snap.unconfirmed || snap.record == nil && snap.deleted.any() {
		// There may have been a record, whose holder may believe to lead.
		alone = b.Guarantees().MaxTTL
		snap.lease.Ref = fmt.Sprintf("%d records deleted", snap.deleted.records+snap.deleted.parents)
	}
	q := &snap.queue
	if snap.lease.ObserveFor = alone; q.blocked {
		snap.lease.ObserveFor = backend.ExpiresInStore
	}
	switch {
	case !snap.lease.Vacant():
		return nil
	case q.foreign == "":
		return b.readLastLeader(get, snap)
	}
	ours := false
	if b.layout.kind == Node { // one of ours may not have a record yet
		owner, err := get(uniqueData, b.layout.sessionPath(sessionName(q.first.stat.EphemeralOwner)))
		if err != nil {
			return err
		}
		ours = !owner.missing
	}
	if !ours { // a member of another program leads
		l := &snap.lease
		l.Holder.ID = foreignID(q.first.data, q.foreign)
		l.Ref = strconv.FormatInt(q.first.stat.Czxid, 16)
		l.Heartbeat = mix(l.Heartbeat, l.Ref)
		l.Age = s.age(q.first.stat.Ctime)
	}
	return nil
}

// held reports whether the holder's node is there.
func (snap *snapshot) holderPresent() bool { return snap.holderNode != "" }
