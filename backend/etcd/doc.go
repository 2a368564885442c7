// Package etcd keeps leases in etcd 3.4 or later. Use a release in which known
// holes are closed: 3.5.33, 3.6.14, 3.7.1 or later.
//
//	store, err := etcd.Open(ctx, etcd.Options{Endpoints: []string{"https://etcd1:2379", "https://etcd2:2379", "https://etcd3:2379"}})
//	manager, err := election.New(store, nil)
//
// There is nothing to set up but the rights, below.
//
// # What is promised, and what must be true for it
//
// One leader at most, and terms that only grow, as package backend specifies. No
// clock of one machine is compared with another's. It holds if
//
//   - clocks tick at nearly the same rate, on the members of etcd as on ours;
//   - etcd keeps what a majority has acknowledged;
//   - whoever restores a snapshot first stops the old cluster, and starts the new
//     one no sooner than the greatest TTL later. Where that shows (the cluster's id
//     is another one, or the revision has gone back under a process that runs)
//     everything is watched for the greatest TTL all the same, and terms jump;
//   - clients talk to etcd itself. Its grpc-proxy and its gateways for other
//     protocols answer some calls on their own.
//
// What no lease can promise: that a process which was stopped does not write after
// it wakes. Where the leader's data lives in the same etcd, read the record, which must
// be of its term, and let each of its transactions compare the revision that was read.
//
// # How it works
//
// A record for each election lasts, and says who holds it. A manager has one session for
// all that it holds: one key, into which each renewal writes a fresh heartbeat. Challengers
// watch record and heartbeat for the holder's TTL by their own clocks, as they do on a
// database. That etcd ends a lease of its own is never waited for, and nothing rests on
// it. Nothing of the client's own election and mutex recipes is used.
//
// A renewal is one transaction. It requires that the session's key is as the renewal
// before has left it, and writes a fresh heartbeat; and it reads, as of the same moment, the
// revisions of the records. A lease is renewed if its record still has the revision that
// the grant gave it. That there is no new request for one of them is a second condition, so
// that who was deposed writes no heartbeat. Records are read key by key up to 40 elections and
// by range above that; whatever their number there is one write. What was not renewed
// together with the rest is listed beside the heartbeat with one of its own.
//
// A takeover is one transaction for each 40 elections. It requires that the records
// and the keys of the holders' sessions have the revisions under which the challenger has
// read, once more, just what it has watched. It writes the records, with the next terms.
//
// A release marks the record vacant, pinned to what was written. A grant of what is
// vacant is pinned to that, and waits for nothing.
//
// # What could two processes each believe?
//
// A holder believes to lead for a TTL from the sending of a grant or a renewal that was
// answered. Etcd puts all transactions in one order, which is that of their revisions,
// and a majority keeps it: a member that was stopped, or cut off, decides nothing. Say
// the last renewal that the holder trusts is at revision k and the takeover at t.
//
//   - k < t. The takeover found the session's key as k, or a later heartbeat, has left it: the
//     challenger had read that heartbeat a TTL before, or earlier, and k was sent before it
//     could be read. By clocks that tick alike the holder's trust had ended by then.
//   - k > t. The record has another revision than that of the grant, and the renewal
//     reads it in the very transaction that writes the heartbeat (or, above 4,000
//     elections, after it). So it is not trusted. Challengers of other elections of
//     that session wait for a moment longer.
//
// A bid is compared with what was read in the same call, or read or heard before. Both is
// safe, since it is not the moment of the reading that counts: if a key has another
// revision than it had then, nothing is granted. Revisions are counted anew by a store
// that was restored, so what is remembered for longer is compared byte by byte as
// well; and what answers must be the cluster that was read, at a later revision. Only
// elections without a record are always read anew: nothing can be compared with what
// is not there, but for the count below. Compactions take nothing that is compared.
//
// Requests may come late, or twice, since a call that one member does not answer is sent
// to another. Each is pinned to what it changes, so the first copy that arrives counts.
// Renewals write in order: each names the revision that the one before has left, so that
// a late one brings no old heartbeat back. If an answer was lost the next renewal finds a
// value that was sent from here, trusts nothing of it, and goes on from there. A release
// of whatever a lost bid may have been granted writes once more what that bid is pinned
// to.
//
// # When a session's key goes away
//
// It hangs on an etcd lease of 24 TTLs, which is kept alive every eighth one, as does
// the member's record, so that nothing is left for long of who has died. That lease may end
// at any time: its process was slow, or somebody revokes it. Or etcd ends it too early: a
// member that led, was stopped, and goes on ends by its own memory what its
// successor has kept alive (measured with etcd 3.7.3, three members of which the leader
// is stopped and continued: 4 of 8 leases were gone at most 126 ms after a keep-alive;
// related: etcd-io/etcd#15247). The key may be deleted by hand, too.
//
// It is no matter. Whoever watches sees a change, and begins anew: nothing that the
// holder trusts is written after that under this key, and the watch lasts a TTL. A
// takeover then requires that the key is still not there. The holder's next renewal
// finds it gone, or holding what the holder has not written, and goes on under another
// session, whose name was never used, by a transaction that requires nothing but that
// the record is as it was granted. That writes the record: whichever of the two
// comes second finds another revision, and is refused.
//
// # When a lease is free
//
//	record vacant                                free
//	record held                                  after record and heartbeat were watched for its TTL
//	the same, and no session                     the same
//	no record, never made                        free
//	no record, but it was deleted; or one from
//	before a snapshot was restored; or nonsense  after it was watched for the greatest TTL
//	written over by a hand                       the same
//
// A record says of which election it is and which write of its key, and the key's version
// shows whether that is so: what somebody has copied, edited or put back fits neither. No
// heartbeat renews it.
//
// That an election was deleted shows in the number of records made,
// which stands in one key; a grant without a record counts it up in the same
// transaction. While records are missing, elections without one are not free at
// once. A process that has seen the record remembers. Made less those there is how
// many were ever deleted: a watch of such an election begins anew if another record is
// deleted meanwhile, since it may have been of this one, led in between.
//
// # Taking over
//
//	after a resignation     milliseconds: one transaction, one event of a watch, one transaction
//	after kill -9           one TTL after the last renewal, and one reading
//
// The watch tells all that a bid for what has become free needs. Renewals are watched
// besides, and wake nobody. When the next one is due each challenger asks whether it was
// heard, and if not, reads.
//
//   - Only what was heard is ever told without reading. That a lease was not renewed is
//     the answer of a linearizable reading alone, and so is everything else, such as
//     that the key of a session is gone.
//   - A heartbeat that was heard was in the store before, and sent before that. A challenger
//     counts from the moment at which it is told of it, which is later. So it watches for
//     no less than if it had read that heartbeat.
//   - A takeover reads once more and is compared with what that shows. A renewal that
//     came since and was not heard undoes it.
//   - If the watch of heartbeats is behind, or tells nothing, or tells of another cluster, it
//     is read. If it is ahead of that of records, a lease that was taken away may seem
//     to be renewed under the old session, until the other watch tells: who believes
//     that waits for longer. Whatever is heard, a lease is read every six TTLs.
//
// Times in the values are used to choose the moment of the next look and for nothing else.
//
// # Calls
//
// In the steady state, whatever the number of elections up to some thousands:
//
//	leader      1 transaction per renewal
//	follower    1 write per TTL: its member record
//	            each 6 TTLs 2 watches, and a reading or two
//	            1 reading for each renewal that is not heard in time
//	everybody   1 keep-alive each 8 TTLs
//
// A leader's member record is written by its renewals, in a transaction within theirs,
// whose condition is that the record is as it was written last: nothing that becomes of
// it makes a renewal fail. If it was not written so, for whatever reason, the next
// announcement writes it by itself.
//
// Each reading has the records and requests between the first and the last
// name that it is about (for renewals: of records the keys alone), a few hundred bytes an
// election, and one key for each session. Each follower is sent every heartbeat of its prefix.
// Give fleets that have nothing to do with each other prefixes of their own.
//
// A call that one member does not answer within a quarter of its time is sent to
// another. When no member has answered in time, connections
// are dropped and made anew, since some networks forget connections and do not say
// so. Give all members as endpoints. A Client of your own is used as it is.
//
// # The keys
//
// All values are JSON. Times are those of who wrote them, and for people.
//
//	etcdctl get election/record/billing            term, holder, how the last leadership ended, history
//	etcdctl get --prefix election/record/          all of them
//	etcdctl get --prefix election/heartbeat/            sessions: what they have renewed last
//	etcdctl get --prefix election/candidate/       who takes part
//	etcdctl get --prefix election/request/            what operators request
//	etcdctl get election/layout                    number of elections made, greatest TTL
//
// The name of an election is the rest of the key, byte by byte. Do not delete keys:
// depose instead, and put none of your own below the prefix, nor let another prefix begin
// with election/record/ or the like: those are counted as records. Who starts only after all
// keys of a prefix were deleted cannot know that somebody still leads. If records were deleted
// on purpose, a greatest TTL later this ends the waiting of new elections: etcdctl del
// election/layout. The next grant makes it again, and counts what is there.
//
// # Rights
//
// One role, for one prefix:
//
//	etcdctl role add election
//	etcdctl role grant-permission election readwrite --prefix=true election/
//	etcdctl user add app
//	etcdctl user grant-role app election
//
// Observers need read instead of readwrite. All must be able to read the whole prefix: it is
// read in ranges. Who may write the layout, heartbeats, candidates, requests, and some of the records
// only is denied the others, and granted those all the same. Who can write the prefix can
// depose or impersonate any leader, and who can revoke leases of others (root) makes them
// write more. With --client-cert-auth the user is the common name of the certificate,
// and no password is needed. Certificate and key are read anew at each connection, the
// authorities at Open. A token that has run out is renewed within the call. Password and
// token are in no error.
//
// # Limits
//
// TTLs are 1 s to 5 min. etcd replaces a leader of its own within one to two seconds by
// default; a TTL should be longer than that. 40 elections of greatest
// metadata fit a request of etcd's 1.5 MiB. 128 operations in a transaction, as is the
// default, are needed.
package etcd
