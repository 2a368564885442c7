// Package consul keeps leases in Consul's key-value store. The servers must have version
// 1.14 or later.
//
//	store, err := consul.Open(consul.Options{Address: "127.0.0.1:8500", TokenFile: "/run/secrets/consul"})
//	manager, err := election.New(store, election.Options{})
//
// A lease is a key that the holder's session has locked. Each process has one session for
// all its elections. A lease lasts for one TTL after its holder's last renewal. A challenger
// watches the lease for that long by its own clock, and then takes it in one transaction. It
// does not wait for Consul to end the session.
//
// docs/consul.md is the page for operators. docs/design/consul.md has the layout of the keys,
// the argument why two processes never lead at once, and the effects of manual edits.
//
// [OpenFirefly] serves another layout, for elections that are shared with programs in .NET.
// The rest of this page is about [Open].
//
// # Options
//
// [Options] has the agent's address, the token, TLS, the datacenter and the prefix of all
// keys ("election" by default). No environment variable is read.
//
// With [Options].Checks the session depends on health checks of the agent's node. When a
// check fails, Consul ends the session, and the leader steps down at its next renewal. The
// price is a lost leadership for each flap, after which the others watch for two TTLs.
//
// # Rights
//
// A token needs these rights; session_prefix may be narrowed to the agent's own node, on
// which the sessions are made. Observers need only read on key_prefix.
//
//	key_prefix "election/" { policy = "write" }
//	session_prefix "" { policy = "write" }
//
// Anyone with the right to write these keys can depose or impersonate any leader. A program
// that keeps data in the same Consul can fence its writes: [Backend.Fence].
//
// # Time until the next leader
//
//	after a resignation                    milliseconds
//	after kill -9                          one TTL after the last renewal, and one read
//	after a session was destroyed manually two TTLs
//
// # Load
//
// A leader makes one request per renewal. So does a follower, and it has one blocking query
// open. The session costs one request in 6 TTLs. The number of elections does not matter.
//
// # Limits
//
// A TTL lies between 1 s and 1 minute, Consul's greatest lock-delay. It should be longer than
// the servers need to replace their own leader, which is some seconds. Reads and writes go to
// one datacenter. A process keeps up to 5 connections to its agent, which allows 200 from
// one address (http_max_conns_per_client). With the servers' default max_value sizes, about
// 5,000 elections of one process can be renewed apart from the others. Stop all members
// before you restore a snapshot or delete the prefix, or stop them for two TTLs afterwards.
package consul
