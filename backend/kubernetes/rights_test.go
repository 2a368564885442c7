package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// allow lets a user do exactly this with the Leases of the namespace, or with those of these names, and waits until that is
// in effect: the API server watches roles and bindings, so its authorizer lags behind.
func (l *lab) allow(t testing.TB, user string, verbs []string, names ...string) {
	t.Helper()
	rule := map[string]any{"apiGroups": []string{"coordination.k8s.io"}, "resources": []string{"leases"}, "verbs": verbs, "resourceNames": names}
	rules, err := json.Marshal([]any{rule})
	if err != nil {
		t.Fatal(err)
	}
	l.server.Apply(t, l.namespace, fmt.Sprintf(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: "testbed:%[1]s"}, rules: %[2]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: "testbed:%[1]s"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "testbed:%[1]s"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "%[1]s"}]
`, user, rules))

	for _, verb := range verbs {
		what := map[string]any{"namespace": l.namespace, "verb": verb, "group": "coordination.k8s.io", "resource": "leases", "name": strings.Join(names[:min(1, len(names))], "")}
		testbed.Eventually(t, 3*time.Minute, "rights are in effect", func() error {
			var review struct {
				Status struct {
					Allowed bool
					Reason  string
				}
			}
			err := l.server.Try(t.Context(), http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", map[string]any{
				"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": map[string]any{"user": user, "resourceAttributes": what},
			}, &review)
			if err == nil && !review.Status.Allowed {
				err = fmt.Errorf("user %s may not: %v: %s", user, what, review.Status.Reason)
			}
			return err
		})
	}
}
