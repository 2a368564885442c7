// Package curator joins the elections that other programs hold in Apache ZooKeeper, 3.5
// or later. The client is github.com/go-zookeeper/zk.
//
// [Latch], the default layout, is the queue of Apache Curator's LeaderLatch. [Selector] is
// that of its LeaderSelector and InterProcessMutex. [Node] is a single ephemeral node at a
// path of the user's choice. In all of them the lock is an ephemeral node of one session,
// which all elections of a Backend share. Beside it a persistent record names the node for
// members of this module.
//
//	store, err := curator.Open(curator.Options{
//		Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"},
//		Tick:    2 * time.Second, // the servers' tickTime, or more
//	})
//	m, err := election.New(store, election.Options{})
//
// # In the store
//
//	/election-curator/latch/<election>/_c_<uuid>-latch-<number>   the queue; EPHEMERAL_SEQUENTIAL, data: the candidate's id
//	/election-curator/record/<election>                           PERSISTENT, JSON: term, holder, request, history
//	/election-curator/session/<session id>                        EPHEMERAL, JSON: what the session has renewed
//	/election-curator/member/<nonce>                              EPHEMERAL, JSON: the member
//
// Read them with zkCli.sh, and write nothing: a set on a lock node uses up the watches
// of Curator's members. Whoever may write these nodes can depose any leader.
//
// # Options
//
// [Options].Tick must not be less than the servers' tickTime: it is the least clock
// margin, and three ticks are the least TTL. MaxSession is the servers'
// maxSessionTimeout; the greatest TTL is three fifths of it, 24 s by default. All
// members must have the same Root, Tick and MaxSession, and all candidates of one
// Backend should have the same TTL.
//
// With User, every node belongs to that user alone, and digest authentication without
// TLS is refused unless the servers are on this host.
//
// # Limits
//
//   - The paths of one session's lock nodes may have 512 KiB in sum, which is three to
//     four thousand elections. More are refused, and need another Backend.
//   - In layout Node a takeover waits until the ensemble ends the holder's session: up
//     to the TTL, two renewal intervals and two ticks.
//   - Members of other programs keep no deadline. A Java process that was stopped may
//     believe that it leads for a moment when it continues.
//   - An operator who writes another address into the leader's node, in layout Node,
//     may cause two leaders for less than a TTL if a member of another program is named.
//   - Deleting the root with everything in it, while a member leads, makes two leaders.
//   - SASL is not supported. Observers of an ensemble and local sessions
//     (localSessionsEnabled) were not tested.
//
// # Design
//
// docs/design/curator.md has the argument why two members never lead at once, how long
// a session is known to live, the load, other programs in the same election, and the
// seals of a migration.
package curator
