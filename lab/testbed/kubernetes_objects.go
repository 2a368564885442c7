package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Request sends a request of the administrator and decodes the answer into into, unless it
// is nil. Body is marshaled as JSON unless it is nil. Any status from 400 on fails the test.
func (k *KubernetesServer) Request(t testing.TB, method, path string, body, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	noError(t, k.Try(ctx, method, path, body, into))
}

// Try is Request that returns the error, for goroutines and for what may fail. A status from
// 400 on is in the error's text, as in "404: ". While etcd is dead, the API server answers
// after half a minute or more.
func (k *KubernetesServer) Try(ctx context.Context, method, path string, body, into any) error {
	return k.request(ctx, method, path, "application/json", body, into)
}

func (k *KubernetesServer) request(ctx context.Context, method, path, contentType string, body, into any) (err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	status, text, err := k.send(ctx, method, path, contentType, text)
	if err == nil && status >= 400 {
		err = fmt.Errorf("%d: %s", status, text)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("testbed: %s %s: %w", method, path, err)
	}
	return nil
}

// Namespace makes a namespace with a new name.
func (k *KubernetesServer) Namespace(t testing.TB) (name string) {
	t.Helper()
	name = "test-" + random()
	k.Apply(t, "", fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name))
	return name
}

// Apply creates or updates objects as the administrator. Each text is YAML or JSON, with one
// object or several documents. Objects that name no namespace go into namespace. Roles and
// bindings take effect some moments later; Allow waits for that.
func (k *KubernetesServer) Apply(t testing.TB, namespace string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for documents := yaml.NewDecoder(strings.NewReader(text)); ; {
			var object map[string]any
			err := documents.Decode(&object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil && object != nil {
				err = k.apply(namespace, object)
			}
			if err != nil {
				t.Fatalf("testbed: apply an object: %v\n%s", err, text)
			}
		}
	}
}

// apply finds the path of an object's kind, and lets the server merge the object.
func (k *KubernetesServer) apply(namespace string, object map[string]any) error {
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if own, _ := meta["namespace"].(string); own != "" {
		namespace = own
	}
	base := "/apis/" + version
	if version == "v1" {
		base = "/api/v1"
	}
	var kinds struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	if err := k.request(ctx, http.MethodGet, base, "", nil, &kinds); err != nil {
		return err
	}
	for _, r := range kinds.Resources {
		if r.Kind != kind || strings.Contains(r.Name, "/") {
			continue
		}
		if r.Namespaced {
			base += "/namespaces/" + namespace
		}
		return k.request(ctx, http.MethodPatch, base+"/"+r.Name+"/"+name+"?fieldManager=testbed&force=true", "application/apply-patch+yaml", object, nil)
	}
	return fmt.Errorf("the API server has no kind %q in %q", kind, version)
}

// A KubernetesRule is a rule of a role: it allows verbs on resources.
type KubernetesRule struct {
	APIGroups []string `json:"apiGroups"` // "" is the core group
	Resources []string `json:"resources"`
	Names     []string `json:"resourceNames,omitempty"` // none: all
	Verbs     []string `json:"verbs"`
}

// Allow gives a user exactly these rights in a namespace, by a Role and a RoleBinding, and
// waits until they are in effect. A second call replaces the rights of the first, but does
// not wait until those that it takes away have no effect.
func (k *KubernetesServer) Allow(t testing.TB, namespace, user string, rules ...KubernetesRule) {
	t.Helper()
	const group = "rbac.authorization.k8s.io"
	name := "testbed:" + user
	role := map[string]any{"apiVersion": group + "/v1", "kind": "Role", "metadata": map[string]any{"name": name}, "rules": rules}
	binding := map[string]any{
		"apiVersion": group + "/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": group, "kind": "Role", "name": name},
		"subjects": []any{map[string]any{"apiGroup": group, "kind": "User", "name": user}},
	}
	for _, object := range []map[string]any{role, binding} {
		noError(t, k.apply(namespace, object))
	}
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					k.awaitRight(t, namespace, user, verb, group, resource, strings.Join(r.Names[:min(1, len(r.Names))], ""))
				}
			}
		}
	}
}

// awaitRight waits until the API server's authorizer allows it: it watches roles and bindings, so it lags behind.
func (k *KubernetesServer) awaitRight(t testing.TB, namespace, user, verb, group, resource, name string) {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	Eventually(t, startLimit, "rights are in effect", func() error {
		var review struct {
			Status struct {
				Allowed bool
				Reason  string
			}
		}
		err := k.Try(t.Context(), http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", map[string]any{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
			"spec": map[string]any{"user": user, "resourceAttributes": map[string]any{
				"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": subresource, "name": name,
			}},
		}, &review)
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("user %s may not %s %s in %s: %s", user, verb, resource, namespace, review.Status.Reason)
		}
		return err
	})
}
