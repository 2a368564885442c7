package testbed

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s"

// makeLease creates a Lease object as the user of k.
func makeLease(ctx context.Context, k *KubernetesServer, namespace, name string) error {
	object := map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": name}}
	return k.Try(ctx, http.MethodPost, strings.TrimSuffix(fmt.Sprintf(leasesPath, namespace, ""), "/"), object, nil)
}

// exists returns an error unless the object exists, or does not, as wanted.
func exists(ctx context.Context, k *KubernetesServer, want bool, namespace, name string) error {
	err := k.Try(ctx, http.MethodGet, fmt.Sprintf(leasesPath, namespace, name), nil, nil)
	if want || err != nil && !strings.Contains(err.Error(), "404: ") {
		return err
	}
	if err == nil {
		return fmt.Errorf("%s exists", name)
	}
	return nil
}

// Two API servers over one store know the same objects. When etcd is dead, both
// refuse writes. When the store goes back, so does what they know.
func TestKubernetesGoesBackWithItsStore(t *testing.T) {
	t.Parallel()
	k := StartKubernetes(t, KubernetesOptions{})
	NoError(t, makeLease(t.Context(), k, "default", "early"))
	saved := k.SaveStore(t)
	NoError(t, makeLease(t.Context(), k, "default", "late"))

	second := StartKubernetes(t, KubernetesOptions{Beside: k})
	k.Kill(t)
	if err := exists(t.Context(), second, true, "default", "late"); err != nil {
		t.Errorf("another API server: %v", err)
	}
	k.Etcd().Kill(t)
	soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := makeLease(soon, second, "default", "never"); err == nil {
		t.Error("the API server wrote to an etcd that was dead")
	}
	k.Etcd().Start(t)
	second.Kill(t)
	k.Start(t)

	k.RestoreStore(t, saved)
	if err := exists(t.Context(), k, true, "default", "early"); err != nil {
		t.Errorf("what the saved store has: %v", err)
	}
	if err := exists(t.Context(), k, false, "default", "late"); err != nil {
		t.Errorf("what was created after the store was saved: %v", err)
	}
	k.RestoreStore(t, "")
	if err := exists(t.Context(), k, false, "default", "early"); err != nil {
		t.Errorf("in an empty store: %v", err)
	}
}
