package kubernetes_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/go-election/go-election/backend/kubernetes"
	"github.com/go-election/go-election/election"
)

// A controller in a pod, with a client configuration that it has already. It takes part in the election of
// the Lease "controller", beside pods that still use client-go.
func Example() {
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	store, err := kubernetes.Open(kubernetes.Options{Namespace: "billing", Config: config})
	if err != nil {
		log.Fatal(err)
	}
	manager, err := election.New(store, election.Options{})
	if err != nil {
		log.Fatal(err)
	}
	controller, err := manager.Join("controller")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err = controller.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		<-ctx.Done() // reconcile until then
		return nil
	})
	if err != nil {
		log.Print(err)
	}
	manager.Close(context.Background())
}
