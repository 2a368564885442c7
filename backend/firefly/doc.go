// Package firefly shares elections with members of
// [FireflySoft.LeaderElection](https://github.com/bosima/FireflySoft.LeaderElection), a library for
// .NET, on Consul 1.14 or later. Elections without such members belong into package consul.
//
//	store, err := firefly.Open(consul.Options{Address: "127.0.0.1:8500"}, firefly.Fleet{})
//	manager, err := election.New(store, election.Options{})
//
// A leader is the process whose Consul session has locked the key of the election, by the rules of
// that library. A member of this module never believes that it leads while another member of this
// module does, or while the lock carries the session of a FireflySoft member. A FireflySoft member
// has no deadline: one that was stopped or cut off believes that it leads until it reads the key
// again.
//
// # Options
//
// [consul.Options] has the agent's address, the token, TLS and the prefix of the members' keys.
// [Fleet] has the times that the FireflySoft members are configured with.
//
// # Rights
//
//	key_prefix "leader-election/" { policy = "write" }
//	key_prefix "election/members/" { policy = "write" }
//	session_prefix "" { policy = "write" }
//	node "go-election-seal" { policy = "write" }    # to move the election only
//
// # Limits
//
// A TTL lies between 1 s and the lesser of Fleet.FailoverDelay and Fleet.SessionTTL. After a leader
// has died, Consul ends its session after one to two session TTLs, and then the fleet waits as its
// members do. Ids must be unique in the whole fleet. Terms grow from one leadership of this module to
// the next; a FireflySoft member has none.
//
// docs/firefly.md is the page for operators. docs/design/firefly.md has the layout of the keys, the
// argument and the waiting times.
package firefly
