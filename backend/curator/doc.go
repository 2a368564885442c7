// Package curator joins the elections that other programs hold in Apache ZooKeeper, 3.5 or later: in the
// queue of Apache Curator's LeaderLatch ([Latch]), in that of its LeaderSelector ([Selector]), or by one
// ephemeral node at a path of the user's choice ([Node]). A member leads if and only if it has two things, as
// package backend/beside says: a lease of package backend/zookeeper, and the lock node of the other programs.
//
//	store, err := curator.Open(curator.Options{
//		ZooKeeper: zookeeper.Options{Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}},
//		Tick:      2 * time.Second, // the servers' tickTime, or more
//	})
//
// # In the store
//
//	/election-curator/latch/<election>/_c_<uuid>-latch-<number>   the queue; EPHEMERAL_SEQUENTIAL, data: id
//	/election-curator/held/<election>/<term>                      EPHEMERAL: the lock was taken in this term
//	/election-curator/lease/…                                     the leases: see package backend/zookeeper
//
// # What two processes may believe
//
// Two members of this module: the lease excludes one of them, wherever their nodes stand.
//
// A member and another program: the program leads while its node is the first. A member makes its node, sees
// that none of a program comes before it, and writes the mark of its term in one transaction with a check of
// that node. Later nodes come behind. So no program leads while the member's node is there, and the member
// trusts it only for as long as the session that owns it certainly lives: counted from the last moment at
// which the ensemble's leader has provably heard of it, which is neither the last write nor the last answer.
// Each renewal checks node and mark. The session is not that of the lease, which the client library keeps
// alive: only calls keep this one, so that the lock of a manager that is stuck goes too.
//
// A lock node is deleted with its mark, in one transaction: by its owner, which has stopped; by a guard,
// whose process has ended; or by a member that has the lease in a later term, when the earlier one is no
// longer trusted. At a fixed path the mark also tells whose the node is: as long as it is there, the session
// that made both lives. A node of ours is written once when it is made, and a deletion names that version,
// which no other's node has.
//
// # The queue
//
// A member that bids while others come first takes a place in the queue, so that it has its turn. The place
// gives nothing but that: the lease decides which member uses it. A member keeps its place while it bids, and
// withdraws it a third of a session after its last bid. Behind a member that has died, the next one that gets
// the lease removes its node for whoever waits there.
//
// The seal of an election that has moved to another store is a PERSISTENT node that comes before all others.
// To Curator's members it is the leader. Who removes it deletes, in the same transaction, the nodes of
// programs that came before its own: their owners have waited without leading, and queue again.
//
// # Limits
//
//   - Other programs keep no deadline: one that was stopped may believe for a moment that it still leads.
//   - An operator who deletes the leader's lock node makes the next program lead at once; the leader ends
//     with its next renewal. So does one who writes into the node of layout Node, but a program that goes by
//     the data leads.
//   - The paths of one session's nodes may have 512 KiB in sum, which is some two thousand elections.
//   - Deleting Root with everything in it, while a member leads, makes two leaders.
//
// docs/design/curator.md says how long a session is known to live. docs/curator.md is the page for operators.
package curator
