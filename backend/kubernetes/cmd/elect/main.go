// Command elect is the command of the main module, with Kubernetes besides the other stores, and with
// "elect run --pod-label". The main module's command does not have client-go in it.
package main

import (
	"context"
	"fmt"

	_ "github.com/go-election/go-election/backend/all"
	_ "github.com/go-election/go-election/backend/kubernetes"
	"github.com/go-election/go-election/backend/kubernetes/podlabel"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/elect"
)

func main() { elect.Main(labelPod) }

// labelPod implements [elect.PodLabel]. The pod is that of this process.
func labelPod(e *election.Election, key string) (stop func(context.Context) error, err error) {
	l, err := podlabel.Start(e, podlabel.Options{Label: key})
	if err != nil {
		return nil, fmt.Errorf("--pod-label: %w", err)
	}
	return l.Stop, nil
}
