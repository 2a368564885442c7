// Package etcd keeps leases in etcd 3.4 or later, by the protocol of package lease. Use a release
// in which known bugs are fixed: 3.5.33, 3.6.14, 3.7.1 or later.
//
//	store, err := etcd.Open(etcd.Options{Endpoints: []string{"https://etcd1:2379", "https://etcd2:2379"}})
//	manager, err := election.New(store, election.Options{})
//
// The only setup is a role with read and write rights under one prefix. Observers need read alone.
//
//	etcdctl role add election
//	etcdctl role grant-permission election readwrite --prefix=true election/
//	etcdctl user add app
//	etcdctl user grant-role app election
//
// List all members in Endpoints: a call that one does not answer within a quarter of its time is
// sent to another. With --client-cert-auth the common name of the client certificate is the user,
// and no password is needed. Nothing depends on the expiry of etcd's own leases.
//
//   - TTLs are 1 s to 5 min, and should be longer than etcd needs to replace its own leader: up to 2 s.
//   - Clocks of managers and etcd members must tick at nearly the same rate. None is compared with another.
//   - etcd must keep what a majority has acknowledged. An operator who restores a snapshot stops
//     the old cluster first, and starts the new one no sooner than the greatest TTL later.
//   - Clients talk to etcd itself, not to its grpc-proxy or its gateways, which answer some calls
//     on their own. The cluster must allow 128 operations in a transaction, its default.
//   - Do not write or delete keys under the prefix, and use Depose to end a leadership.
//
// docs/design/etcd.md has the keys and what happens when a store is restored or rebuilt,
// package lease the protocol. docs/etcd.md is the operator's page.
package etcd
