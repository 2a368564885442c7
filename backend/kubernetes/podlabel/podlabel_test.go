package podlabel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

const patience = 30 * time.Second

// A lab is a namespace with pods. Nothing runs in them: each stands for a process of the test.
type lab struct {
	*testbed.KubernetesServer
	namespace string
	config    *rest.Config // of the pods' service account
	store     *memory.Store
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{KubernetesServer: testbed.SharedKubernetes(t), store: memory.New()}
	l.namespace = l.Namespace(t)
	_, token := l.ServiceAccount(t, l.namespace, "app")
	config, err := clientcmd.BuildConfigFromFlags("", l.TokenKubeconfig(t, token))
	testbed.NoError(t, err)
	l.config = config
	return l
}

// allow lets the service account do what the page says.
func (l *lab) allow(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/kubernetes.md")
	testbed.NoError(t, err)
	_, role, _ := strings.Cut(string(page), "The pods' service account needs:\n\n```yaml\n")
	role, _, _ = strings.Cut(role, "```")
	l.Apply(t, l.namespace, role, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: app}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: election-pod-label}
subjects: [{kind: ServiceAccount, name: app, namespace: %s}]
`, l.namespace))
}

// A member is a process in a pod of its own.
type member struct {
	t     *testing.T
	e     *election.Election
	label *Label
	m     *election.Manager
	log   lines
}

// lines has what a logger writes.
type lines chan string

func (l lines) Write(line []byte) (int, error) { l <- string(line); return len(line), nil }

func (l *lab) member(t *testing.T, pod string) *member {
	t.Helper()
	l.Apply(t, l.namespace, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: orders}}, spec: {containers: [{name: app, image: none}]}}", pod))
	m, err := election.New(l.store.Backend(), election.Options{ID: pod, TTL: time.Second})
	testbed.NoError(t, err)
	t.Cleanup(func() { m.Close(context.Background()) })
	e, err := m.Join("orders")
	testbed.NoError(t, err)
	x := &member{t: t, e: e, m: m, log: make(lines, 100)}
	x.label, err = Start(e, Options{Namespace: l.namespace, Pod: pod, Config: l.config, Logger: slog.New(slog.NewTextHandler(x.log, nil))})
	testbed.NoError(t, err)
	t.Cleanup(func() { x.crash() })
	return x
}

func (m *member) leads() {
	m.t.Helper()
	if _, err := m.e.Campaign(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// crash ends the process without its last words.
func (m *member) crash() {
	m.label.stop()
	<-m.label.ended
	m.m.Close(context.Background())
}

// awaitLabelled waits until exactly these pods have the label.
func (l *lab) awaitLabelled(t *testing.T, when string, want ...string) {
	t.Helper()
	testbed.Eventually(t, patience, when, func() error {
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		l.Request(t, http.MethodGet, "/api/v1/namespaces/"+l.namespace+"/pods?labelSelector=app%3Dorders%2Celection-leader%3Dtrue", nil, &list)
		var got []string
		for _, p := range list.Items {
			got = append(got, p.Metadata.Name)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the label is on %v, want %v", got, want)
		}
		return nil
	})
}

func TestTheLabelFollowsTheLeader(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.allow(t)
	a, b := l.member(t, "a"), l.member(t, "b")
	l.awaitLabelled(t, "nobody leads")
	a.leads()
	l.awaitLabelled(t, "a leads", "a")
	a.e.Pause()
	l.awaitLabelled(t, "a leads no longer")
	b.leads()
	l.awaitLabelled(t, "b leads", "b")
	if err := b.label.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	l.awaitLabelled(t, "b has stopped its label")
}

func TestTheNextLeaderRemovesTheLabelOfADeadPod(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.allow(t)
	a, b := l.member(t, "a"), l.member(t, "b")
	a.leads()
	l.awaitLabelled(t, "a leads", "a")
	a.crash()
	l.awaitLabelled(t, "nobody leads, and nobody can remove the label", "a")
	b.leads()
	l.awaitLabelled(t, "b leads", "b")

	l.member(t, "a") // it comes back
	l.awaitLabelled(t, "a is back", "b")
}

// Who has led, and does not know yet that another one leads, leaves the label of that one alone.
func TestALaterLeaderKeepsItsLabel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.allow(t)
	a, b := l.member(t, "a"), l.member(t, "b")
	a.leads()
	lead := a.e.Leadership()
	l.awaitLabelled(t, "a leads", "a")
	a.e.Pause()
	b.leads()
	l.awaitLabelled(t, "b leads", "b")
	if err := a.label.clearOthers(t.Context(), lead); err != nil {
		t.Error(err)
	}
	l.awaitLabelled(t, "b leads on", "b")
}

// Rights that come late are enough. The log says when they were missing, and when they were there.
func TestTheLabelIsTriedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.member(t, "a")
	a.leads()
	if err := a.label.update(t.Context()); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("without rights: %v", err)
	}
	l.awaitLabelled(t, "it has no rights")
	l.allow(t)
	l.awaitLabelled(t, "it has the rights", "a")
	for _, text := range []string{"could not be changed", "can be changed again"} {
		select {
		case line := <-a.log:
			if !strings.Contains(line, text) {
				t.Errorf("it says %s; want that the label %s", line, text)
			}
		case <-time.After(patience):
			t.Errorf("it does not say that the label %s", text)
		}
	}
}

func TestMistakesAreErrorsAtTheStart(t *testing.T) {
	m, err := election.New(memory.New().Backend(), election.Options{})
	testbed.NoError(t, err)
	t.Cleanup(func() { m.Close(context.Background()) })
	e, err := m.Join("orders")
	testbed.NoError(t, err)
	for what, o := range map[string]Options{
		"a label that is no key":         {Label: "no key", Namespace: "n", Pod: "p", Config: &rest.Config{}},
		"no namespace, and no pod":       {Pod: "p", Config: &rest.Config{}},
		"no configuration, and no pod":   {Namespace: "n", Pod: "p"},
		"a configuration with no server": {Namespace: "n", Pod: "p", Config: &rest.Config{Host: "http://%zz"}},
	} {
		if l, err := Start(e, o); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
			if l != nil {
				l.stop()
			}
		}
	}
}
