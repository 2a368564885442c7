// Package kubernetes keeps leases in Lease objects of Kubernetes (coordination.k8s.io/v1), in the
// layout of client-go's leaderelection. Members of both kinds take part in one election, as leader and
// as follower, so that a rolling update moves a fleet from client-go to this module, or back.
//
//	store, err := kubernetes.Open(kubernetes.Options{Namespace: "billing"})
//	manager, err := election.New(store, election.Options{})
//	e, err := manager.Join("controller") // the Lease "controller"
//
// It is a module of its own, so that client-go is in the programs of its users only. In a pod it uses
// the service account, elsewhere the kubeconfig of kubectl. It needs rights for the Leases of
// one namespace: see docs/kubernetes.md. "kubectl get lease" shows who leads.
//
// What members of client-go may do beside those of this module, and what this module cannot prevent, is on
// the operator's page, docs/kubernetes.md. In short: set ReleaseOnCancel to false while both kinds take part,
// do not delete Leases, and let IDs be unique over both kinds. A leadership of client-go has no term: it is
// shown with the last term of this module, and does not stop old leaders from writing where terms fence.
// Nomination, FailoverDelay, IncumbentGrace and requests of an operator do not reach it.
//
// Each renewal of an election is one request, since Kubernetes writes one object at a time. For hundreds of
// elections in one process take another store.
//
// docs/design/kubernetes.md has the argument.
package kubernetes
