// Package lease has what stores share that keep versioned records: package etcd and package consul
// use it. One session record renews all leases of a process, so that renewing a thousand costs no
// more than one. docs/design/etcd.md has the argument.
package lease
