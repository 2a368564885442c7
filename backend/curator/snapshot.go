package curator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/ensemble"
)

// A snapshot is the state of one election as read at one time.
type snapshot struct {
	lease          backend.Lease
	heartbeat      uint64         // with ref the Version of the lease
	ref            string         // what else a challenger must observe unchanged
	record         *record        // nil: there is none, or it cannot be read
	version        int32          // of the record
	deleted        deletionCounts // without a record, or with an unconfirmed one: which records were ever deleted, of any election
	unconfirmed    bool           // the record may replace one whose holder believes that it leads; see Backend.confirmNewRecord
	unreadable     error          // why the record cannot be read
	holderNode     string         // the holder's node, if it exists
	sessionVersion int32          // version of the holder's session record, if a takeover depends on it
	checkSession   bool           // a takeover depends on sessionVersion although there is no holder's node
	queue          queue
	watches        []*ensemble.Watch
}

// changed reports whether anything that was read under a watch has changed since, or its connection is lost.
func (snap *snapshot) changed() bool {
	return slices.ContainsFunc(snap.watches, (*ensemble.Watch).Over)
}

// A readMode says how to read elections: one for all that are read together.
type readMode struct {
	watch     bool          // leave watches, and use what is remembered under them
	sessions  *sessionReads // read the session records of the holders; nil: do not
	afterSync func() error  // must return before a read without a watch; nil: no need to wait
}

// A readFunc reads a path in the mode of a snapshot, which then depends on it.
type readFunc func(ensemble.Kind, string) (ensemble.Node, error)

// waitForSync waits until a read without a watch is allowed.
func (mode readMode) waitForSync() error {
	if mode.afterSync == nil {
		return nil
	}
	return mode.afterSync()
}

// watchedRead returns the usual mode.
func watchedRead() readMode { return readMode{watch: true, sessions: &sessionReads{}} }

// takeSnapshot reads an election.
func (b *Backend) takeSnapshot(ctx context.Context, s *session, election string, mode readMode) (snap snapshot, err error) {
	for range 5 {
		snap = snapshot{}
		err = b.takeSnapshotOnce(ctx, s, election, mode, &snap)
		if err != nil || !mode.watch {
			break
		}
		// Parts that were read one after the other may be of two times. Then a watch has fired.
		if !snap.changed() {
			break
		}
	}
	if err == nil {
		snap.lease.Version = version(snap.heartbeat, snap.ref)
		snap.lease = clean.Lease(snap.lease)
	}
	return snap, err
}

func (b *Backend) takeSnapshotOnce(ctx context.Context, s *session, election string, mode readMode, snap *snapshot) error {
	get := func(kind ensemble.Kind, path string) (ensemble.Node, error) { return s.ReadNode(ctx, kind, path) }
	if mode.watch {
		get = func(kind ensemble.Kind, path string) (ensemble.Node, error) {
			r, err := s.Watched(ctx, kind, path)
			if err == nil {
				snap.watches = append(snap.watches, r.Watch)
			}
			return r, err
		}
		kind, lock := b.layout.lockKind(), b.layout.lockPath(election)
		if _, known := s.Watches.Node(kind, lock); !known {
			go s.Watched(ctx, kind, lock) // needed next, and then any error is returned
		}
	}
	err := b.readRecord(ctx, s, election, mode, get, snap)
	if err != nil || snap.unreadable != nil {
		return err
	}
	if snap.queue, err = b.readQueue(ctx, s, election, mode, get); err != nil {
		return err
	}
	if snap.queue.sealed && snap.lease.MovedTo == "" { // the record was deleted
		snap.lease.MovedTo = snap.queue.to
	}
	observeFor := time.Duration(0) // for a challenger that no node in the queue keeps out
	if rec := snap.record; rec != nil && rec.Holder != nil && !snap.unconfirmed {
		if observeFor, err = b.readHolder(ctx, s, mode, get, snap); err != nil {
			return err
		}
		// A grant behind another program's node is about to be taken back; see
		// checkQueueOrder. That program leads.
		if early := snap.holderPresent() && b.layout.kind != Node && snap.queue.foreign != "" && rec.Holder.Nonce != string(b.owner.Nonce()); early {
			snap.lease.Holder, snap.lease.TTL, snap.lease.Renew = backend.Candidate{}, 0, 0
		} else if snap.holderPresent() {
			return nil // the lease is complete
		}
	}
	if snap.unconfirmed || snap.record == nil && snap.deleted.any() {
		// There may have been a record, whose holder may believe that it leads.
		observeFor = b.Guarantees().MaxTTL
		snap.ref = fmt.Sprintf("%d records deleted", snap.deleted.records+snap.deleted.parents)
	}
	if snap.lease.ObserveFor = observeFor; snap.queue.blocked {
		snap.lease.ObserveFor = backend.ExpiresInStore
	}
	switch {
	case !snap.lease.Vacant():
		return nil
	case snap.queue.foreign == "":
		return b.readLastLeader(get, snap)
	}
	return b.showForeignLeader(s, get, snap)
}

// readRecord reads the record of an election, and if necessary which records were deleted.
func (b *Backend) readRecord(ctx context.Context, s *session, election string, mode readMode, get readFunc, snap *snapshot) error {
	r, err := get(ensemble.Data, b.layout.recordPath(election))
	if err != nil {
		return err
	}
	snap.lease = backend.Lease{Election: election}
	if !r.Missing {
		snap.version = r.Stat.Version
		if snap.record, snap.unreadable = parseRecord(r.Data, election); snap.unreadable != nil {
			snap.heartbeat = mix(uint64(r.Stat.Mzxid), "unreadable")
			return nil
		}
		snap.lease, snap.heartbeat = snap.record.lease(), snap.record.Heartbeat
		snap.lease.Age = s.age(r.Stat.Mtime)
		if snap.record.Unconfirmed == "" {
			return nil
		}
	}
	// Deletions are read after the record was found to be missing or unconfirmed, so that
	// they include any that came before.
	if err := mode.waitForSync(); err != nil {
		return err
	}
	if snap.deleted, err = b.readDeletions(ctx, s); err != nil || r.Missing {
		return err
	}
	if snap.unconfirmed = !snap.record.heldBy(b.owner.Nonce(), 0) || snap.deleted.String() != snap.record.Unconfirmed; snap.unconfirmed {
		snap.lease = backend.Lease{Election: election}
	}
	return nil
}

// showForeignLeader shows a member of another program as leader, unless the node belongs
// to a member of this module.
func (b *Backend) showForeignLeader(s *session, get readFunc, snap *snapshot) error {
	q := &snap.queue
	if b.layout.kind == Node { // a member of this module may not have written a record yet
		owner, err := get(ensemble.Unique, b.layout.sessionPath(sessionName(q.first.Stat.EphemeralOwner)))
		if err != nil || !owner.Missing {
			return err
		}
	}
	l := &snap.lease
	snap.ref = nodeName(q.first)
	l.Holder = backend.Candidate{ID: foreignID(q.first.Data, q.foreign), Nonce: backend.Nonce("node " + snap.ref)}
	snap.heartbeat = mix(snap.heartbeat, snap.ref)
	l.Age = s.age(q.first.Stat.Ctime)
	return nil
}

// holderPresent reports whether the holder's node exists.
func (snap *snapshot) holderPresent() bool { return snap.holderNode != "" }
