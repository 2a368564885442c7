// Package consul keeps leases in Consul's key-value store, with servers of 1.14
// or later.
//
//	store, err := consul.Open(ctx, consul.Options{Address: "127.0.0.1:8500", TokenFile: "/run/secrets/consul"})
//	manager, err := election.New(store, nil)
//
// # Layout
//
// Under the prefix, "election" by default:
//
//	election/leases/lock/<name>    locked by the holder's session; its value is the present leadership
//	election/leases/term/<name>    lasting: the last term, who had it, how it ended, the request, the history
//	election/heartbeats/<session>       locked by that session; written at each renewal of its holder
//	election/members/<nonce>       who takes part
//	election/changes               written with each change that a member makes below leases/
//
// [Firefly] is another layout, for elections that are shared with programs in .NET;
// nothing else on this page is about that.
//
// All values are JSON. Each process has one session for all its elections, with
// behaviour release, a lock-delay of the TTL, and no checks: not serfHealth
// either, which would end it whenever the node is suspected to be away.
//
// # What is promised, and why
//
// One leader at most, and terms that only grow, as package backend specifies.
//
// Consul's sessions are not asked how long a lease lasts. A session may live for
// twice its TTL, its timer starts anew whenever the servers change their leader,
// and an operator may end it at once. So a lease lasts for a TTL after its
// holder's last renewal, and challengers watch for that long by their own clocks,
// as they do on a database.
//
// A renewal is one transaction. It requires that the session lives and holds its
// heartbeat key, that this key has the index of the renewal before, and that the lock
// and the record of each lease have the indexes they had when they were ours; it
// writes a fresh heartbeat. For more than 31 leases the indexes do not fit. Then the
// transaction reads the index of election/changes, which every grant, release and
// request writes in its own transaction. Equal to what it was when a lease was last
// certain, and no member has done anything to it. Otherwise all locks and records
// are read, consistently and after the write: see "By hand" for what that leaves.
//
// A takeover is one transaction. It requires that lock, record, and the heartbeat key
// of the holder have the indexes under which a challenger has seen the lease
// unchanged for its TTL; it unlocks the lock in the name of the holder's session,
// locks it for its own, and writes the record with the next term. Consul allows
// anybody who may write a key to do that, the session need not end, and what is
// unlocked has no lock-delay. The first grant of an election has no keys of its own to
// rest on. It requires that election/changes has the index under which there were none:
// lock and record may have come, and have been deleted by hand, since.
//
// What can two processes believe at one instant? Say the holder counts from the
// sending of renewal k, which wrote the heartbeat at index i, and a takeover rests on
// the heartbeat of index w, read at least a TTL before.
//
//   - i ≤ w: renewal k was sent before the challenger received what it watched.
//     The holder's trust ended, less its clock margin, before the challenger's watch.
//   - i > w, and the heartbeat was written before the takeover: that was refused.
//   - i > w, and the heartbeat was written after the takeover: the renewal was
//     refused, since its lock had another index; or, for many leases, it found
//     another index of election/changes, and the reading that followed it showed
//     the takeover, being consistent and later.
//
// The servers' log puts all writes in one order, and a consistent reading is
// answered by a leader that has made sure of being one. A follower, or a leader
// that has been cut off, confirms nothing. Indexes never come back for a key,
// but by restoring a snapshot: see below.
//
// Each write is pinned to indexes, so one that arrives late, after its call has
// failed or after an agent has repeated it, does nothing. Consul's plain acquire
// and release, which are not pinned, are not used. If the outcome of a renewal is
// not known, the heartbeat key is read before the next one.
//
// The session is a second condition for each renewal and a belt: with it, other
// programs that use Consul's locks keep off, and a lease whose session has ended
// is refused to its holder at once and to everybody else while the lock-delay
// runs, which is the time they must watch in any case.
//
// A lease that its holder has ceased to renew, such as one whose function hangs,
// runs out though the process, its session and its other leases go on: the heartbeat
// key lists what was not renewed with the rest.
//
// # By hand
//
// A lease is free only if its record says that the last leadership ended in order, or
// if there is no trace of one. What people do to keys does not write
// election/changes. A holder of up to 31 leases sees it at its next renewal all the
// same. One of more looks at the index of all locks and records whenever five sixths
// of the TTL have passed since it looked last: equal to that of the last listing, and
// nobody has written or deleted anything there. (After a deletion that index goes back
// once its tombstone is removed, a quarter of an hour later, so it is compared with
// nothing older than five minutes.) Till then it may renew, and trust for another TTL,
// what has lost its lock. Two things keep others out for so long:
//
//   - A lock whose value names the session of its holder cannot be taken while that
//     session's heartbeat key is written.
//   - All else, such as a lock that was deleted, written over, or has lost its
//     session, is watched for two TTLs. So is an election whose lock and record are
//     both gone, or older than what a process has seen; the next term exceeds that.
//
// Whatever is granted then writes election/changes, and the next renewal of who had
// it before is refused.
//
// A process that starts after lock and record were both deleted, or the servers
// restored from an older snapshot, cannot know, and its terms begin anew, also after
// [backend.TermJump]s. Restore snapshots, and delete the
// prefix, while all members are stopped, or stop them for two TTLs afterwards.
//
// # How long a takeover takes
//
//	after a resignation     milliseconds: one transaction, one blocking query, one transaction
//	after kill -9           one TTL after the last renewal, and one reading
//	a session ended by hand two TTLs after that
//
// It could be done otherwise. Waiting for Consul to end the session takes up to
// two session TTLs (10 s at least, by default) and the lock-delay, which must not
// be shorter than the TTL, since the holder may trust its lease when the session
// ends: three TTLs. A check with a TTL of a few seconds, bound to the session,
// ends it sooner, and then the lock-delay is waited for: check and TTL together,
// always more than the TTL alone, and it needs the right to register checks and
// an agent that lives on. At a TTL of 10 s, with Consul 1.19, the first was
// measured to take 30.0 s, and the second 13.0 s with a check of 3 s. Destroying the holder's session after watching it needs
// session:write on its node, cannot be pinned to anything, and leaves a
// lock-delay. So a lease is watched, and then unlocked.
//
// Renewals wake nobody: followers wait for changes of locks and records, and read
// the heartbeats when a renewal is due. The times in the values, by the writers' clocks,
// are used to choose that moment and for nothing else; clocks that disagree cost
// a later reading.
//
// The servers need seconds to replace a leader of theirs that has died (with
// raft_multiplier 1; the default is slower). A TTL should be longer than that; the
// default of 10 s is.
//
// # Load
//
// In requests, whatever the number of elections:
//
//	leader      1 per renewal
//	follower    1 per renewal, and a blocking query that waits
//	everybody   1 per 6 TTLs for the session, and again for the blocking query
//
// The member's key is written along with the readings of a follower. A leader writes it by
// itself, once a TTL, or, of more than 31 elections, along with a renewal, and looks once a
// TTL at what was done by hand instead. With more than 20 elections a
// change of one makes each process list all of them, once for all changes between two
// renewals. The keys of gone members and sessions are deleted after a day.
//
// # Health checks
//
// With [Options].Checks the session hangs on checks of the agent's node. When one
// fails, Consul ends the session, and the holder's next renewal is refused: it
// steps down within one renewal and cannot be elected before all of them pass.
// What a lease promises stays as it is: others watch it for two TTLs, as if an
// operator had ended the session, and lead no sooner. The price is a leadership lost for each
// flap, and that time. With
// serfHealth among the checks, a node that is only slow to answer gossip loses
// its leaderships.
//
// # Rights
//
// A token needs no more than this; sessions are made on the agent's own node, to
// which session_prefix may be narrowed:
//
//	key_prefix "election/" { policy = "write" }
//	session_prefix "" { policy = "write" }
//
// Observers need key_prefix read. Where acl.enable_key_list_policy is set, "list"
// is included in write. A token goes into a header, over TLS if the address is
// https, and into no error. Who may write these keys can depose or impersonate any
// leader. Whoever keeps data in the same Consul can fence writes: [Backend.Fence].
//
// # Looking inside
//
//	consul kv get election/leases/lock/billing
//	consul kv get election/leases/term/billing
//	consul kv get -recurse -keys election/leases/lock/
//	consul kv get -recurse election/members/
//
// Do not delete keys to depose a leader: ask with [backend.Depose], or destroy its
// session, which ends all its leaderships.
//
// # Limits
//
// Each process keeps up to 5 connections to its agent, one of which waits for
// changes. An agent allows 200 from one address (http_max_conns_per_client).
//
// A TTL is 1 s to 1 minute, the greatest lock-delay. Reads and writes go to one
// datacenter. With the default max_value sizes of the servers about 5,000
// elections of one process can be renewed apart from the others.
package consul
