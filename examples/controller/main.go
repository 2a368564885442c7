// Controller is one replica of a controller of Kubernetes that elects through any store, so that
// it puts no leases on the API server. It greets whoever a ConfigMap names:
//
//	export ELECTION_BACKEND=mysql ELECTION_MYSQL_DSN='app:secret@tcp(127.0.0.1:3306)/app'
//	ELECTION_ID=a go run . & ELECTION_ID=b go run .       # KUBECONFIG as for kubectl
//	kubectl create configmap hello --from-literal=name=world
//	kubectl get configmap hello -o yaml                   # greeting: Hello, world!  by: a
//
// Kill the replica that leads: the other greets after one TTL, at once if it was asked to end.
package main

import (
	"context"
	"log"
	"log/slog"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/backend/kubernetes/resourcelock"
	"github.com/go-election/go-election/config"
)

func main() {
	ctrl.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	m, err := config.Open(ctx, "") // from the environment
	if err != nil {
		return err
	}
	lock, err := resourcelock.New(m, "greeter")
	if err != nil {
		return err
	}
	t := lock.Timings()
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection: true, LeaderElectionResourceLockInterface: lock,
		LeaseDuration: &t.LeaseDuration, RenewDeadline: &t.RenewDeadline, RetryPeriod: &t.RetryPeriod,
		Metrics: metrics.Options{BindAddress: "0"}, // two replicas run on one host
	})
	if err != nil {
		return err
	}
	greets := &greeter{mgr.GetClient(), m.ID()}
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(greets); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return err // without Close: a reconciler may still run, so the lease must expire
	}
	return m.Close(context.Background())
}
