// Command elect is the command of the main module, with Kubernetes besides the other stores, and with
// "elect run --pod-label". The main module's command does not have client-go in it.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	_ "github.com/go-election/go-election/backend/all"
	_ "github.com/go-election/go-election/backend/kubernetes"
	"github.com/go-election/go-election/backend/kubernetes/podlabel"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/elect"
)

func main() { elect.Main(labelPod) }

// labelPod implements [elect.PodLabel]. It finds the API server as kubectl does: by KUBECONFIG, or in a pod by its
// service account.
func labelPod(e *election.Election, key string) (stop func(context.Context) error, err error) {
	var o clientcmd.ConfigOverrides
	o.Context.Namespace = os.Getenv("POD_NAMESPACE") // empty: that of the file or the service account
	client := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &o)
	config, err := client.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--pod-label: %w", err)
	}
	namespace, _, err := client.Namespace()
	if err != nil {
		return nil, fmt.Errorf("--pod-label: %w", err)
	}
	l, err := podlabel.Start(e, podlabel.Options{Label: key, Namespace: namespace, Config: config})
	if err != nil {
		return nil, err
	}
	return l.Stop, nil
}
