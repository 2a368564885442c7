package kubernetes

import (
	"context"
	"net/http"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// patient bounds a call of a test.
const patient = 20 * time.Second

// A lab is a namespace of an API server.
type lab struct {
	server    *testbed.KubernetesServer
	namespace string
	file      string // kubeconfig of the administrator
	admin     typed.LeaseInterface
}

func newLab(t testing.TB, k *testbed.KubernetesServer) *lab {
	t.Helper()
	l := &lab{server: k, namespace: k.Namespace(t), file: k.AdminKubeconfig(t)}
	l.admin = l.open(t, "").client
	return l
}

// sharedLab is a lab for a test that runs beside others.
func sharedLab(t *testing.T) *lab {
	t.Helper()
	t.Parallel()
	return newLab(t, testbed.SharedKubernetes(t))
}

// open returns a Backend of the administrator.
func (l *lab) open(t testing.TB, prefix string) *Backend {
	t.Helper()
	return testbed.Open(t, Open, Options{Kubeconfig: l.file, Namespace: l.namespace, Prefix: prefix})
}

// edit changes an election's Lease as an operator does.
func (l *lab) edit(election string, do func(*coordination.Lease)) error {
	for {
		lease, err := l.admin.Get(context.Background(), naming{}.election(election), meta.GetOptions{})
		if err != nil {
			return err
		}
		do(lease)
		if _, err = l.admin.Update(context.Background(), lease, meta.UpdateOptions{}); !conflict(err) {
			return err
		}
	}
}

// A node is one member of this module: a Backend and its candidate.
type node struct {
	*Backend
	*drivertest.Candidate
}

// ttl is the TTL of the leases in these tests.
const ttl = 2 * time.Second

func newNode(t testing.TB, b *Backend, id string) *node {
	return &node{b, drivertest.NewCandidate(t, b, id, ttl)}
}

func (l *lab) node(t testing.TB, id string) *node {
	t.Helper()
	return newNode(t, l.open(t, ""), id)
}

// A hook makes a request of a client, by what would make it otherwise.
type hook func(next http.RoundTripper, r *http.Request) (*http.Response, error)

type hooked struct {
	next http.RoundTripper
	do   hook
}

func (h hooked) RoundTrip(r *http.Request) (*http.Response, error) { return h.do(h.next, r) }

// WrappedRoundTripper lets Close find the connections.
func (h hooked) WrappedRoundTripper() http.RoundTripper { return h.next }

// hookNode is a node whose requests go through a hook, in JSON.
func (l *lab) hookNode(t testing.TB, id string, do hook) *node {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", l.file)
	testbed.NoError(t, err)
	config.ContentType = "application/json"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return hooked{next, do} })
	b := testbed.Open(t, Open, Options{Config: config, Namespace: l.namespace})
	return newNode(t, b, id)
}

// seal marks a lease as moved to MySQL.
func (n *node) seal(l backend.Lease) backend.Lease {
	n.T.Helper()
	held := l.Held()
	held.MovedTo = "mysql"
	answers, err := n.Mark(n.Context(), []backend.Held{held})
	if err != nil || answers[0].Outcome != backend.Granted {
		n.T.Fatal(answers, err)
	}
	return answers[0].Lease
}

func (n *node) mustBeWatched(election, why string) backend.Lease {
	n.T.Helper()
	l := n.Sees(election)
	if l.ObserveFor < ttl {
		n.T.Errorf("%s may bid for %q after %v although %s; its holder trusts it for %v", n.Me.ID, election, l.ObserveFor, why, ttl)
	}
	return l
}

func (n *node) mustBeFree(election, why string) backend.Lease {
	n.T.Helper()
	l := n.Sees(election)
	if l.ObserveFor != 0 {
		n.T.Errorf("%q must be watched for %v although %s; want it free", election, l.ObserveFor, why)
	}
	return l
}

func (n *node) mustRefuse(held backend.Lease, why string) {
	n.T.Helper()
	if a := n.Renews(held); a.Outcome != backend.Refused {
		n.T.Errorf("the renewal of %s is %v (%v); want it refused: %s", n.Me.ID, a.Outcome, a.Err, why)
	}
}

func (n *node) mustLose(over backend.Lease, why string) {
	n.T.Helper()
	if a := n.Bids(over); a.Outcome != backend.Refused {
		n.T.Errorf("a bid of %s is %v (%v); want it refused: %s", n.Me.ID, a.Outcome, a.Err, why)
	}
}

// mustWin bids, as if the lease had been watched for long enough.
func (n *node) mustWin(over, before backend.Lease) backend.Lease {
	n.T.Helper()
	a := n.Bids(over)
	if a.Outcome != backend.Granted || a.Term <= before.Term {
		n.T.Fatalf("a bid of %s is %v (%v), term %d after %d; want it granted with a greater term", n.Me.ID, a.Outcome, a.Err, a.Term, before.Term)
	}
	return a.Lease
}

// delete deletes a Lease as an operator does.
func (l *lab) delete(t testing.TB, name string) {
	t.Helper()
	testbed.NoError(t, l.admin.Delete(t.Context(), name, meta.DeleteOptions{}))
}

// write writes a spec as a member of client-go does: it leaves annotations and labels alone.
func (l *lab) write(t testing.TB, election, id string, seconds int32, taken bool) {
	t.Helper()
	now := meta.NowMicro()
	err := l.edit(election, func(lease *coordination.Lease) {
		transitions, acquired := ptr.Deref(lease.Spec.LeaseTransitions, 0), lease.Spec.AcquireTime
		if taken {
			transitions++
			acquired = &now
		}
		lease.Spec = coordination.LeaseSpec{HolderIdentity: &id, LeaseDurationSeconds: &seconds, AcquireTime: acquired, RenewTime: &now, LeaseTransitions: &transitions}
	})
	testbed.NoError(t, err)
}

// clear writes what a member of client-go leaves behind when it releases its lease.
func (l *lab) clear(t testing.TB, election string) { l.write(t, election, "", 1, false) }
