package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// blocks returns the YAML of a page's fenced blocks.
func blocks(t *testing.T, page string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	testbed.NoError(t, err)
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

// The reference of all keys has those of this backend, with their types.
func TestEachKeyIsInTheReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	testbed.NoError(t, err)
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^- `(kubernetes\\.[^`]+)`(?:, ([^(:]+?))?(?: \\(.*?\\))?: ").FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = cmp.Or(m[2], "a string")
	}
	for _, k := range config.Keys() {
		if !strings.HasPrefix(k.Name, "kubernetes.") {
			continue
		}
		if rows[k.Name] != k.Type {
			t.Errorf("the reference has the type %q for %s, want %q", rows[k.Name], k.Name, k.Type)
		}
		delete(rows, k.Name)
	}
	for key := range rows {
		t.Errorf("the reference has a line for %s, which is not a key", key)
	}
}

// The configuration on docs/kubernetes.md is accepted, and the rights there are enough for a member,
// as doctor says. Without them, the error says what an administrator must do, and shows no token.
func TestTheKubernetesPageIsTrue(t *testing.T) {
	t.Parallel()
	page := blocks(t, "../../docs/kubernetes.md")
	if _, err := config.Parse("kubernetes.md", []byte(page[0]), config.Options{Environ: []string{}}); err != nil {
		t.Error(err)
	}
	k := testbed.SharedKubernetes(t)
	l := newLab(t, k)
	_, token := k.ServiceAccount(t, l.namespace, "app")
	l.file = k.TokenKubeconfig(t, token)
	n := l.node(t, "app")
	ctx := n.Context()
	_, err := n.Looks("jobs")
	mustBeDenied(t, err, "kubectl create role", token)
	mustBeDenied(t, n.Announce(ctx, backend.Member{Candidate: n.Me, TTL: ttl}), "kubectl create role", token)
	mustBeDenied(t, n.Listen(ctx, []backend.Lease{{Election: "jobs", Version: "x"}}), "kubectl create role", token)
	list, err := n.Inspect(ctx, ttl, ttl/3)
	if err != nil || !slices.ContainsFunc(list, func(d backend.Diagnostic) bool { return d.Fatal && strings.Contains(d.Text, "kubectl create role") }) {
		t.Errorf("doctor: %v, %v; want a fatal diagnostic with what to do", list, err)
	}
	k.Apply(t, l.namespace, strings.ReplaceAll(page[1], "namespace: billing", "namespace: "+l.namespace))
	testbed.Eventually(t, patient, "the Role is in effect", func() error {
		return n.Preflight(ctx, []backend.Bid{{Election: "jobs", Candidate: n.Me, TTL: ttl}})[0]
	})
	m, err := election.New(l.open(t, ""), election.Options{ID: "app", TTL: ttl})
	testbed.NoError(t, err)
	e, err := m.Join("jobs")
	testbed.NoError(t, err)
	_, err = e.Campaign(ctx)
	testbed.NoError(t, err)
	if err := m.Close(ctx); err != nil {
		t.Error(err)
	}
	if list, err = n.Inspect(ctx, ttl, ttl/3); err != nil || slices.ContainsFunc(list, func(d backend.Diagnostic) bool { return d.Warning }) {
		t.Errorf("doctor: %v, %v; want no warning", list, err)
	}
}

func mustBeDenied(t *testing.T, err error, want string, secrets ...string) {
	t.Helper()
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) {
		t.Errorf("want an error of class ErrDenied with %q, got %v", want, err)
	}
	for _, secret := range secrets {
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
			t.Errorf("%q shows the secret %q", err, secret)
		}
	}
}

// A right that is missing is found beforehand, whichever it is.
func TestEachRightIsNeeded(t *testing.T) {
	t.Parallel()
	k := testbed.SharedKubernetes(t)
	verbs := []string{"get", "list", "watch", "create", "update", "delete"}
	for _, without := range verbs {
		t.Run(without, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, k)
			user := "without-" + without
			l.allow(t, user, slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return v == without }))
			l.file = k.Kubeconfig(t, user)
			n := l.node(t, "n")
			ctx := n.Context()
			mustBeDenied(t, n.Preflight(ctx, []backend.Bid{{Election: "jobs", Candidate: n.Me, TTL: ttl}})[0], "cannot "+without)
		})
	}
}

// An observer needs no right to write.
func TestAnObserverOnlyReads(t *testing.T) {
	l := sharedLab(t)
	k := l.server
	l.node(t, "leader").Leads("jobs")
	l.allow(t, "observer", []string{"get", "list", "watch"})
	l.file = k.Kubeconfig(t, "observer")
	m, _ := l.manager(t, "observer", election.Options{Observer: true})
	e, err := m.Join("jobs")
	testbed.NoError(t, err)
	testbed.Eventually(t, patient, "the observer knows the leader", func() error {
		if leader, _, ok := e.Leader(); !ok || leader.ID != "leader" {
			return fmt.Errorf("it is %v", e.Current())
		}
		return nil
	})
}

// No error shows a token, whatever fails.
func TestErrorsShowNoToken(t *testing.T) {
	t.Parallel()
	const canary = "canary-7c1f93a5"
	k := testbed.SharedKubernetes(t)
	l := newLab(t, k)
	good := k.TokenKubeconfig(t, canary)
	text, err := os.ReadFile(good)
	testbed.NoError(t, err)
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		testbed.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	for what, file := range map[string]string{
		"a token that nobody gave":    good,
		"no server":                   testbed.KubeconfigAt(t, good, "127.0.0.1:1"),
		"a file that is cut off":      write(string(text[:len(text)-20])),
		"a token instead of a file":   canary,
		"a token as a file's content": write(canary),
		"a token as an address":       write(strings.Replace(string(text), `"server": "https://`, `"server": "`+canary+`:\\`, 1)),
		"a token as a certificate":    write(strings.Replace(string(text), `"certificate-authority-data": "`, `"certificate-authority-data": "`+canary, 1)),
		"a context that is missing":   write(strings.Replace(string(text), `"current-context": "`, `"current-context": "x`, 1)),
	} {
		b, err := Open(Options{Kubeconfig: file, Namespace: l.namespace})
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err = b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
			cancel()
			b.Close()
		}
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), canary) {
			t.Errorf("%s: the error is %v; want one without the token", what, err)
		}
		if b != nil && strings.Contains(fmt.Sprintf("%v %+v %#v %s", b, b, b, b.Location()), canary) {
			t.Errorf("%s: the Backend shows the token", what)
		}
	}
}

// Options that make no sense are refused, with what is allowed.
func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]Options{
		`prefix is "Team-"`:         {Prefix: "Team-"},
		`prefix is "-"`:             {Prefix: "-"},
		`prefix is "go-election-"`:  {Prefix: "go-election-"},
		"kubeconfig: there is none": {Kubeconfig: "/no/such/file"},
		`namespace is "Kube_System`: {Namespace: "Kube_System", Config: &rest.Config{}},
		"it has no such context":    {Kubeconfig: os.DevNull, Context: "x"},
	} {
		b, err := Open(o)
		if err == nil {
			b.Close()
		}
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: want an error of class ErrInvalid with %q, got %v", o, want, err)
		}
	}
}

// allow lets a user do exactly this with the Leases of the namespace, or with those of these names, and waits until that is
// in effect: the API server watches roles and bindings, so its authorizer lags behind.
func (l *lab) allow(t testing.TB, user string, verbs []string, names ...string) {
	t.Helper()
	rule := map[string]any{"apiGroups": []string{"coordination.k8s.io"}, "resources": []string{"leases"}, "verbs": verbs, "resourceNames": names}
	rules, err := json.Marshal([]any{rule})
	testbed.NoError(t, err)
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
