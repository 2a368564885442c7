// Package redis keeps leases in Redis 6.2 or later, or Valkey, by the protocol of package lease.
//
//	store, err := redis.Open(redis.Options{Addresses: []string{"redis:6379"}})
//	manager, err := election.New(store, election.Options{})
//
// One Lua script reads and writes five keys, which have one hash tag. Of a program's own client of
// go-redis any kind can be handed in that has one master for these keys.
//
//   - TTLs are 1 s to [Options].MaxTTL, which is the same in all processes. Redis acknowledges what is
//     neither on disk nor on a replica. So after each restart or failover of the server every leader
//     steps down, and each lease is observed for MaxTTL.
//   - Clocks of managers must tick at nearly the same rate. No clock of one machine is compared with
//     another's, and the server's may be set at any time.
//   - One server takes writes at a time. Before a replica is promoted, the old master must be fenced off, or
//     [Options].WaitReplicas must be the number of its replicas. Sentinel alone does not do it.
//   - maxmemory-policy is noeviction or a volatile one. repl-backlog-ttl is 0 or at least MaxTTL.
//   - Do not edit or delete keys, and use Depose to end a leadership.
//
// docs/design/redis.md says how keys become items, and what happens in failovers;
// package lease has the protocol. docs/redis.md is the operator's page.
package redis
