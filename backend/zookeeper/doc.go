// Package zookeeper keeps leases in Apache ZooKeeper, 3.5 or later, with the client
// github.com/go-zookeeper/zk. Elections that are shared with members of Apache Curator, or with
// programs that use a single node as a lock, belong into package curator.
//
//	store, err := zookeeper.Open(zookeeper.Options{Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}})
//	manager, err := election.New(store, election.Options{})
//
// It is a driver of package lease: an election is a lasting node, a process an ephemeral one. A crash costs
// the rest of the TTL: the end of the dead process's session is not waited for, except as "Limits" says.
//
// # In the store
//
//	/election                   the identity of this store
//	/election/meta              how many elections were made, and the greatest TTL
//	/election/record/<name>     an election: term, leader, request, history; JSON
//	/election/session/<nonce>   a process, with its heartbeat; EPHEMERAL, JSON
//
// Read them with zkCli.sh. Whoever may write them can depose any leader.
//
// # Limits
//
// A TTL lies between 1 s and 5 min. If it is longer than half the servers' maxSessionTimeout (40 s by
// default), a crash costs the length of the session in addition: its end begins the watch anew. Members shows
// a process that has crashed until then. All heartbeats of one process are one request; it carries the paths
// of all elections that the process leads, up to 900 KB, and more in further requests.
//
// Deleting the root with everything in it, while a member leads, can make two leaders: a process that
// starts after that cannot know. SASL is not supported.
//
// docs/design/zookeeper.md says why this is safe although a ZooKeeper server may answer with old data.
// docs/zookeeper.md is the page for operators.
package zookeeper
