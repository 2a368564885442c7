// Package zookeeper keeps leases in Apache ZooKeeper, 3.5 or later, with the
// client github.com/go-zookeeper/zk.
//
// # What a lease is
//
// An ephemeral node of one session, which all elections of a Backend share, and a
// record that is kept for ever and names that node. In the default layout, [Latch],
// it is an ephemeral sequential node in the queue of Apache Curator's LeaderLatch,
// so that a Java fleet can be joined as it is; [Selector] is LeaderSelector's (and
// InterProcessMutex's), and [Node] is a single ephemeral node at a path of the
// user's choice.
//
// Members of this module go by the record, and by what the holder's session says of
// renewals: they watch a lease for its TTL, as on a database, and need not wait for
// the ensemble to end a session. Members of other programs go by the queue, and by
// the session.
//
// # In the store
//
//	/election/latch/<election>/_c_<uuid>-latch-<number>   the queue; EPHEMERAL_SEQUENTIAL, data: the candidate's id
//	/election/record/<election>                           PERSISTENT, JSON: term, holder, request, history
//	/election/session/<session id>                        EPHEMERAL, JSON: what the session has renewed
//	/election/member/<nonce>                              EPHEMERAL, JSON: the member
//
// Any of it can be read with zkCli.sh (get, ls). /election is [Options].Root, and
// the queue's parent is [Options].Path or [Options].Paths; it is a container,
// where servers have such. <election> is the name with unsafe bytes as %XX. A UUID
// of ours has the version 8, which nobody draws at random, and begins with digits
// that stand for the root: nodes without that are members of other programs, or of
// another root. Nothing else is ever put into a queue, whose members would take it
// for the leader, and no node in it is ever written: that would use up the watch by
// which a LeaderLatch hears that it is gone.
//
// # What could two processes each believe?
//
// The holder believes to lead for the time that Trust says after it has sent a
// grant or a renewal that was answered. Each renewal is one transaction, which
// checks that the holder's node is there and that the record is as it was granted,
// and writes a fresh heartbeat into the session's own node. The ensemble's leader puts
// all transactions in one order.
//
// Another of ours is granted by a transaction that compares and swaps the record.
// What it takes for granted is one of these:
//
//   - The record says that nobody leads, because the holder has released: record
//     and node were changed in one transaction, after it had ceased to lead.
//   - The challenger has watched the lease for the TTL: the same term, node and
//     heartbeat, counted from when it received the first such answer. The transaction
//     checks that the session's node has the version under which the challenger has
//     just read that very heartbeat once more, and deletes the holder's node. Say the
//     last renewal whose answer the holder trusts was written before it. Then it
//     wrote that heartbeat or an earlier one, was sent before the heartbeat could be read,
//     and is trusted until before the watch was over, by clocks that tick alike.
//     If it comes after the transaction it finds the node gone and the record
//     changed, and is refused; so are all later ones, however late they arrive. A
//     challenger that reads from a follower which was cut off watches something
//     old: the transaction is decided by the leader, and fails.
//   - The holder's node is gone: the ensemble has ended its session, or somebody has
//     deleted it. No renewal can follow, and the challenger has watched for the TTL
//     since it found that. That the ensemble does not end a session before Trust is
//     over (below) is not counted on: its holder's process may have closed it, and
//     servers that were started anew with a smaller maxSessionTimeout shorten it at
//     the next connection. (Only in the layout [Node], where nobody can watch before,
//     is a session that has ended the end of its leadership.)
//
// A heartbeat that was read does not come back: a renewal is pinned to the version that the
// one before has left, and each heartbeat is random (so "never" is 2^-64). If the session's node is deleted by hand the
// leases that hang on it are refused to their holder, which releases them, and
// nobody watches them meanwhile: the ensemble will decide. A node that is made again
// has another czxid, which is part of each heartbeat.
//
// A member of another program leads when its node is the first. So none of ours may
// be granted unless its node comes before all of theirs. A grant makes the node and
// writes the record in one transaction, and is taken back before anybody is told if
// one of theirs has come since the look at the queue; whoever comes later is behind.
// The number in our node's name tells whether any has: it is how many nodes were made in
// the queue before (PrepRequestProcessor, from the parent's cversion), and how many
// those were at the look is known from the stat that was read with the children (its
// cversion counts what was made and what was deleted; DataNode.copyStat). If the
// two are equal, nobody has come. A queue that was deleted and made anew meanwhile would
// count from the beginning, so its own node is watched since before the look: servers tell
// of its end before they answer the transaction, on the same connection. If they are not
// equal, or the watch has fired, or the connection is another, the queue is read again.
//
// Nodes of ours that come before are no matter: they go by the record. As long as one
// of theirs is in the way, ours stand in the queue. When the
// holder has died that they wait for, the first of ours that has watched deletes
// its node all the same, for their good. They in turn know nothing of Trust, and
// lead when the holder's session has ended, or when it was watched for its TTL.
//
// Two of ours that challenge at once write the same record, and one is refused. What
// is left of an old session under our nonce is deleted, never taken over. A record
// that was deleted is watched for, too: as soon as any record was ever deleted, or
// all with their parent (the parents' cversion and number of children tell), who finds
// none waits for the longest TTL. (Who deletes the root itself, with everything, while
// somebody leads, makes two leaders.)
//
// The first bid for an election may have looked before there was a record, and be carried
// out after another's was made and deleted. It makes the record again, and versions begin
// with 0 again. So the grant that makes a record takes two writes. Between them it is read
// whether any record was deleted since the look; nobody renews under version 0; and a
// record that was written once names no leader. If it is never written again, because its
// maker has died or has found out, all wait for the longest TTL, and the next grant writes
// it. What stood there before is forgotten by then.
//
// In the layout [Node] there is one path for all, and nothing says whose node would
// be deleted there if it changed hands by somebody's hand at the same moment. So
// nobody deletes another's, and a takeover waits for the ensemble.
//
// # How long the session lives
//
// Its length L is counted by the ensemble's leader, from when that last heard of
// the session. It hears of it when it is created, when a client connects with it to
// another server (or again), and when a follower answers its ping, twice a tick,
// with the sessions that it has heard from. It does not hear of it from a write: a
// follower that passes one on and is cut off the next moment has told nothing, and
// the answer to the write proves nothing.
//
// But followers, and the channel between them and the leader, keep order both ways.
// Say k was answered half a tick or more before m was sent, and m was answered before
// n was sent, which was answered too. Since k was answered, and before its answer to
// m, the leader has pinged; so the follower has answered the ping before m was
// answered, with a list in which k is, unless an earlier one had it; so the leader
// has heard that before it heard of n. And n being a write, a majority has agreed that
// it was the leader by then: what another leader knew does not matter, and a later one
// begins to count anew. k may be anything that the follower has answered, such as a
// reading. m must be answered by the leader: it may be a sync. Connections to a follower
// end when it loses its leader, and k, m and n are of one connection.
//
// So what is known of the session is the sending of the latest such k, or of the
// latest greeting with a write after it. Trust is L minus its age, and at most the
// TTL. L is TTL + 2 renewal intervals, so that with renewals, or observations, at
// their usual pace Trust is the whole TTL. When a grant finds that too little is
// known the Backend connects again, which takes a few milliseconds. The leader rounds
// up to whole ticks, in our favour. Test: a follower is cut off right after it has
// answered; the node must not vanish before the end of Trust (seen: a second and
// more after it).
//
// The client library would keep a session alive as long as its process lives,
// whatever has become of the manager. Its pings are held back: a session lives by
// the manager's own calls. So a lease runs out, for members of other programs as
// well, when a manager is stuck, and a member is forgotten.
//
// # Times
//
// [Options].Tick must not be less than the servers' tickTime; it is the least
// clock margin, and three of them the least TTL. The servers bound sessions to 2 to 20
// ticks (minSessionTimeout, maxSessionTimeout), which bounds TTLs to three fifths of
// that: 24 s by default.
//
//	after a resignation     two round trips of writes, and one or two of reads
//	after kill -9           one TTL after the last renewal, and one reading
//	the same, by a member of another program, if none of ours watches; or layout Node
//	                        up to L and two ticks; or 16.7 s, if that is longer and the
//	                        session was opened before a bid or an announcement had told L
//
// A session for longer leases than those it has is not possible: all candidates of
// one Backend should have the same TTL. All members must have the same Tick and
// MaxSession: who finds that records were deleted waits for the longest TTL that its own
// allow.
//
// A leader that was cut off with the server that it reads from may see an old state,
// such as no request and itself as the leader, until its deadline. It believes no reading:
// only answered writes extend Trust.
//
// # Hearing of changes
//
// By watches: one for each path and connection, however many elections ask. The
// renewals of others wake nobody: they are read of when they are due. A change costs
// each follower the same few requests, whatever their number.
//
// That a lease was renewed is read without a sync: one reading for each session that
// leads some of the elections, be they one or a thousand. On one connection a server
// never shows what is older than what it has shown; so a heartbeat that is new to this
// connection is newer, though the server may be behind. Who takes it for the latest
// begins to watch later than it could, never earlier, as a watch counts from when its
// heartbeat was received, and a takeover is pinned to that very heartbeat (above). All else is
// read behind a sync: that nothing was renewed, that anything else has changed, a vacant
// lease, a lease of another program, what was not yet seen on this connection. So the
// silence of a server that was cut off is never believed, and that the ensemble is out
// of reach is found out one reading later than with a sync before each.
//
// # Load
//
// A renewal is one request; a reading that finds its leases renewed is one, and one
// that finds anything else is three and what has changed. The member record hangs on the
// session, which tells that its process is there: it is written when it changes, or was
// deleted. There are no pings. With the defaults (TTL 10 s) an idle leader makes 18
// renewals a minute, and a follower 18 readings, of one election or of a thousand.
//
// # Members of other programs
//
// A Curator LeaderLatch in the same queue is shown as leader by what its node
// holds, in the term of the last leadership of a member of this module (Curator knows no
// terms), to be waited for. It must have the default error policy, and it keeps no deadline:
// a Java process that was stopped may believe to lead for a moment when it goes on.
// FailoverDelay, incumbent grace and nomination hold among members of this module.
// LeaderLatch.close() with CloseMode.SILENT does not call notLeader.
//
// A LeaderSelector does the same. In Java with one node (Layout node, Path
// /soa/master/services/{election}, Data address) nothing tells a leader that its session
// has ended: a process that was stopped or cut off must be ended.
//
// There an operator may write another address, or id, into the leader's node. Ours
// takes that for a nomination that is accepted: it steps down at its next renewal, and
// others of ours than the named one hold back for a TTL. A member of another program
// that goes by what it reads leads at once; so there may be two leaders for less than a
// TTL, which only the editor can prevent. See appoint.go.
//
// For FireflySoft.LeaderElection: Layout node, Path /leader-election/{election}/flag,
// Last /leader-election/{election}/leader. Its members wait for the old leader to come back
// (three times ten seconds); set IncumbentGrace to as much. It holds after a leader of theirs,
// too, as soon as one of ours has ever led: the node Last tells. Their members go by the
// data of the node and have no deadline either.
//
// # Moving elections away, and back
//
// [Backend.Mark] seals an election for everybody, also for programs that know nothing
// of this module and wake up late. The record says where it has moved to, and beside it
// is a PERSISTENT node that no program of theirs gets past:
//
//	/election/latch/<election>/+moved     layouts latch and selector: a child that comes before all others
//	/soa/master/services/<election>       layout node: at the path itself
//
// It holds the text "moved to mysql". In zkCli.sh:
//
//	ls /election/latch/jobs               [+moved, _c_6a0b…-latch-0000000007]
//	get /election/latch/jobs/+moved       moved to mysql
//	get /election/record/jobs             {"election":"jobs", … "moved_to":"mysql"}
//
// Curator orders children by what follows the base of their names, and a name
// without it as a whole: "+moved" comes before every number. Its members take it for
// the leader (getLeader returns the id "moved to mysql"), and wait for it to go. Seen
// with LeaderLatch and LeaderSelector 5.4.
//
// The seal is made and broken only by who holds the lease, in one transaction with the
// record, which checks that the node of its session is there, its own in the queue, and
// the record as it was granted. Its own node being the first, nobody of another program
// leads when the seal is made. Behind a seal the queue decides nothing: members of this
// module that mean to bid over the seal go by the record alone. Who breaks it deletes,
// in the same transaction, the seal by its version and every node of other programs
// that came before its own: they have waited, did not lead, and would in that moment.
// Curator's members queue again. At a fixed path a lease under a seal has no node; a
// challenger watches what the holder's session says, as in a queue. Breaking a seal
// there takes two steps: first the holder's own node takes its place, then the record is
// written.
//
// An operator who deletes a seal by hand lets other programs lead; those of
// this module do not, as the record still says that the election has moved.
//
// # Rights and TLS
//
// With [Options].User, every node that is made belongs to that user alone (scheme
// auth); members must share it, or an [Options].ACL that names all of them. The
// least rights are cdrw below Root and on the queues. Whoever loses the rights at the
// nodes of one election loses that election: it is shown as one that nobody leads, bids
// and renewals say ErrDenied, and the others go on. To make the places
// beforehand, in zkCli.sh:
//
//	addauth digest app:PASSWORD
//	create /election "" auth::cdrw
//	create /election/record "" auth::cdrw
//	create /election/session "" auth::cdrw
//	create /election/member "" auth::cdrw
//	create /election/latch "" auth::cdrw
//
// Without a user the nodes are open to anybody who reaches the servers, as are
// Curator's by default. Digest sends the password in the clear: it is refused
// without TLS unless the servers are on this host. [Options].TLS is for the servers'
// secureClientPort. Whoever may write these nodes can depose any leader.
//
// # Limits
//
// The paths of one session's nodes may have 512 KiB in sum: closing a session with
// some two megabytes of them has taken ensembles down (ZOOKEEPER-4306). With names
// of usual length these are three to four thousand elections; what is above that is
// refused, and needs another Backend. SASL is not supported. Observers of an ensemble and
// local sessions (localSessionsEnabled) were not tested.
package zookeeper
