// Package consul keeps leases in Consul's key-value store. The servers must have version 1.14 or later.
//
//	store, err := consul.Open(consul.Options{Address: "127.0.0.1:8500", TokenFile: "/run/secrets/consul"})
//	manager, err := election.New(store, election.Options{})
//
// It is a driver of package lease: each election is a key, and each process is a key that its
// renewals write. A lease lasts for one TTL after its holder's last renewal, by the clock of the
// challenger that watches it. Sessions and locks of Consul play no part in that.
//
// docs/consul.md is the page for operators. docs/design/consul.md has the layout of the keys and what Consul
// is good for; package lease has the argument why two processes never lead at once.
//
// # Rights
//
// A token needs this right. Observers need only list.
//
//	key_prefix "election/" { policy = "write" }
//
// Anyone with the right to write these keys can depose or impersonate any leader. A program that keeps
// data in the same Consul can fence its writes: [Backend.Fence].
//
// # Limits
//
// A TTL lies between 1 s and 1 minute. It should be longer than the servers need to replace their own leader,
// which is some seconds. Reads and writes go to one datacenter. A process keeps up to 5 connections to its
// agent, which allows 200 from one address (http_max_conns_per_client). With the servers' default sizes,
// about 5,000 elections of one process can be renewed apart from the others. Stop all members before you
// restore a snapshot or delete the prefix, or stop them for a TTL afterwards.
package consul
