// Package kubernetes keeps leases in Lease objects of Kubernetes (coordination.k8s.io/v1), in the
// layout of client-go's leaderelection. Members of both kinds take part in one election, as leader and
// as follower, so that a rolling update moves a fleet from client-go to this module, or back.
//
//	store, err := kubernetes.Open(kubernetes.Options{Namespace: "billing"})
//	manager, err := election.New(store, election.Options{})
//	e, err := manager.Join("controller") // the Lease "controller"
//
// It is a module of its own, so that client-go is in the programs of its users only. In a pod it uses
// the service account, elsewhere the kubeconfig of kubectl. It needs one right, for Leases of one
// namespace: see [Role]. "kubectl get lease" shows who leads.
//
// # Limits of members of client-go
//
//   - A member of client-go keeps no deadline while it is stopped: it goes on believing that it leads
//     until it runs again. No member of this module can prevent that. The reverse does not happen: a
//     member of this module has stopped leading before one of client-go takes over.
//   - Before 0.27 it waits for its own LeaseDuration, which must not be less than the TTL here.
//   - With ReleaseOnCancel, a member of client-go that ends may blank a Lease that it no longer holds:
//     it does not look whose it is (seen in 0.34). Members of this module do not believe the blank, but
//     those of client-go do, and one of them may lead until the leader's next renewal is refused. Set
//     ReleaseOnCancel to false while both kinds take part.
//   - If somebody deletes the Lease, the next member of client-go makes it and leads at once. Do not
//     delete Leases.
//   - It compares identities, not processes: IDs must be unique over both kinds.
//   - A leadership of client-go has no term. It is shown with the last term of this module, and does
//     not stop old leaders from writing where terms fence.
//   - Nomination, FailoverDelay, IncumbentGrace and requests of an operator do not reach it.
//
// # Limits of the API server
//
//   - TTLs are 1 s to 5 min. client-go keeps whole seconds: leaseDurationSeconds is the TTL rounded up.
//   - Each renewal of an election is one request, since Kubernetes writes one object at a time.
//     Followers watch, and hardly read. For hundreds of elections in one process take another store.
//   - Whoever restores a copy of the cluster's etcd starts it no sooner than the greatest TTL after the
//     old one was stopped.
//   - Admission webhooks must leave spec and annotations of Leases alone; if one does not, the error
//     says so.
//   - Clocks of members must tick at nearly the same rate. No clock of one machine is compared with
//     another's.
//
// docs/kubernetes.md is the operator's page, and docs/design/kubernetes.md has the argument.
package kubernetes
