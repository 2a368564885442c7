package bench

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	_ "github.com/go-election/go-election/backend/kubernetes"
	"github.com/go-election/go-election/lab/testbed"
)

// Members of client-go, with the timings that it recommends (15 s, 10 s and 2 s), and with
// those of the other rows: one TTL, and as many renewals.
const (
	clientGo    = "client-go"
	clientGoTTL = "client-go, TTL 10 s"
)

// leases connects to the API server of a kubeconfig. Like this module it does without client-go's
// own limit of requests per second: 1,000 elections need more.
func leases(kubeconfig string) (*typed.CoordinationV1Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return typed.NewForConfig(config)
}

// electors is client-go's leaderelection: one elector for each election.
func (r role) electors(n int) (campaign func(i int) error, resign func(i int), err error) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	client, err := leases(r.Server)
	if err != nil {
		return nil, nil, err
	}
	config := leaderelection.LeaderElectionConfig{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true}
	if r.Peer == clientGoTTL {
		config.LeaseDuration, config.RenewDeadline = r.TTL, 7*time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	campaign = func(i int) error {
		led, own := make(chan struct{}), config
		own.Lock = &resourcelock.LeaseLock{
			LeaseMeta: meta.ObjectMeta{Name: fmt.Sprintf("%s-%d", r.Name, i), Namespace: "default"}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: r.ID},
		}
		own.Callbacks = leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(led) }, OnStoppedLeading: func() {},
			OnNewLeader: func(id string) {
				if r.heard != nil && id != "" && id != r.ID {
					r.heard()
				}
			},
		}
		elector, err := leaderelection.NewLeaderElector(own)
		if err != nil {
			return err
		}
		running.Go(func() { elector.Run(ctx) })
		<-led
		return nil
	}
	// All resign at the same time.
	resign = func(int) {
		cancel()
		running.Wait()
		ctx, cancel = context.WithCancel(context.Background())
	}
	return campaign, resign, nil
}

func kubernetesStore(t *testing.T) store {
	// The API server must have no Lease of its own, whose renewals would count.
	server := testbed.StartKubernetes(t, testbed.Options{Args: []string{"--feature-gates=APIServerIdentity=false"}})
	file := server.AdminKubeconfig(t)
	client, err := leases(file)
	testbed.NoError(t, err)
	return store{
		name: "Kubernetes", version: server.Version(), backend: "kubernetes", server: file, peers: []string{clientGo, clientGoTTL},
		section: func(string) any { return map[string]any{"kubeconfig": file, "namespace": server.Namespace(t)} },
		// Watches are counted when they end.
		count: func() (float64, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			page, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
			if err != nil {
				return 0, err
			}
			return samples(page, regexp.MustCompile(`^apiserver_request_total\{.*resource="leases"`))
		},
	}
}
