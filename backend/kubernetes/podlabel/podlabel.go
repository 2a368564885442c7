// Package podlabel puts a label on the pod of the leader, so that a Service points at it. The election may be
// in any store; only the label is in Kubernetes.
//
//	label, err := podlabel.Start(e, podlabel.Options{}) // e is an election.Election
//	defer label.Stop(context.Background())
//
// The Service selects the label beside the labels of the program:
//
//	selector: {app: orders, election-leader: "true"}
//
// All pods of the program are ready, whether or not they lead, so a rolling update goes on. A readiness probe
// that asks for the leadership would stop it: the new pod is ready only when the old one has gone.
//
// The label follows the leadership, and a moment passes until the endpoints of the Service follow the label.
// After a crash the dead pod keeps it until the next leader, which removes it from all other pods. So the
// label says where to send requests, and nothing more: the program that receives one asks Leading, or is
// behind electionhttp.Forward.
package podlabel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// DefaultLabel is the key of the label if Options.Label is empty. Its value is "true".
const DefaultLabel = "election-leader"

// Options of [Start]. In a pod the zero value will do, if the program has one election.
type Options struct {
	// Label is the key of the label. Each election needs a label of its own. Default: DefaultLabel.
	Label string

	// Namespace and Pod name the pod of this process. Default: POD_NAMESPACE or else the namespace of the
	// pod's service account, and POD_NAME or else the host's name, which is the pod's by default.
	Namespace, Pod string

	// Config is a client's configuration. Default: that of the pod's service account.
	Config *rest.Config

	// Logger receives the first error of each outage. Default: slog.Default.
	Logger *slog.Logger
}

// A Label keeps the label of this process's pod. Methods are safe for concurrent use.
type Label struct {
	election *election.Election
	pods     typed.PodInterface
	options  Options

	wake  chan struct{} // tells run of an event; has room for one
	stop  context.CancelFunc
	ended chan struct{}
}

// Start begins to follow an election. It does not call the API server. An error is of class
// backend.ErrInvalid: an option is missing or not allowed.
func Start(e *election.Election, o Options) (*Label, error) {
	o.Label = cmp.Or(o.Label, DefaultLabel)
	if problems := validation.IsQualifiedName(o.Label); problems != nil {
		return nil, fmt.Errorf("podlabel: %w: Label %q: %s",
			backend.ErrInvalid, o.Label, strings.Join(problems, "; "))
	}
	if o.Namespace = cmp.Or(o.Namespace, os.Getenv("POD_NAMESPACE")); o.Namespace == "" {
		text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
		if err != nil {
			return nil, fmt.Errorf("podlabel: %w: Namespace is not set, and this process is in no pod: %w",
				backend.ErrInvalid, err)
		}
		o.Namespace = strings.TrimSpace(string(text))
	}
	host, _ := os.Hostname()
	o.Pod = cmp.Or(o.Pod, os.Getenv("POD_NAME"), host)
	if o.Config == nil {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("podlabel: %w: Config is not set: %w", backend.ErrInvalid, err)
		}
		o.Config = c
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	client, err := typed.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("podlabel: %w: %w", backend.ErrInvalid, err)
	}

	ctx, stop := context.WithCancel(context.Background())
	l := &Label{
		election: e, pods: client.Pods(o.Namespace), options: o,
		wake: make(chan struct{}, 1), stop: stop, ended: make(chan struct{}),
	}
	context.AfterFunc(ctx, e.Watch(func(election.Event) {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}))
	go l.run(ctx)
	return l, nil
}

// Stop ends, and removes the label. It returns an error if the label may still be there.
func (l *Label) Stop(ctx context.Context) error {
	l.stop()
	<-l.ended
	return l.patch(ctx, l.options.Pod, "", nil)
}

const (
	callLimit  = 5 * time.Second // of a call of the API server
	retryAfter = 5 * time.Second // after an error
	repeat     = time.Minute     // somebody may have edited the pod
)

// run sets the label when the leadership has changed, and now and then again.
func (l *Label) run(ctx context.Context) {
	defer close(l.ended)
	failing := false
	for {
		wait, err := repeat, l.update(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			l.options.Logger.Warn("the label of the leader's pod could not be changed",
				"pod", l.options.Pod, "label", l.options.Label, "error", err)
		} else if err == nil && failing {
			l.options.Logger.Info("the label of the leader's pod can be changed again", "pod", l.options.Pod)
		}
		if failing = err != nil; failing {
			wait = retryAfter
		}

		select {
		case <-l.wake:
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// update makes the label say what is so.
func (l *Label) update(ctx context.Context) error {
	lead := l.election.Leadership()
	if lead == nil {
		return l.patch(ctx, l.options.Pod, "", nil)
	}
	if err := l.patch(ctx, l.options.Pod, "", new("true")); err != nil {
		return err
	}
	return l.clearOthers(ctx, lead)
}

// clearOthers removes the label from the pods of earlier leaders, which may be dead. It leaves what has
// changed since it was read. If a later leader's label was read, that one has led, and lead is over.
func (l *Label) clearOthers(ctx context.Context, lead *election.Leadership) error {
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	list, err := l.pods.List(call, meta.ListOptions{LabelSelector: l.options.Label, Limit: 100})
	if err != nil {
		return fmt.Errorf("podlabel: list pods: %w", cleaned(err))
	}
	var failed []error
	for i := range list.Items {
		if p := &list.Items[i]; p.Name != l.options.Pod && lead.Leading() {
			failed = append(failed, l.patch(ctx, p.Name, p.ResourceVersion, nil))
		}
	}
	return errors.Join(failed...)
}

// patch sets the label of a pod, or removes it (nil), if the pod has still the version; "" for any. A pod
// that is gone, or has changed, needs nothing.
func (l *Label) patch(ctx context.Context, pod, version string, value *string) error {
	m := map[string]any{"labels": map[string]*string{l.options.Label: value}}
	if version != "" {
		m["resourceVersion"] = version
	}
	body, _ := json.Marshal(map[string]any{"metadata": m}) // texts cannot fail

	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := l.pods.Patch(ctx, pod, types.MergePatchType, body, meta.PatchOptions{})
	other := pod != l.options.Pod
	if err == nil || other && (kerrors.IsConflict(err) || kerrors.IsNotFound(err)) {
		return nil
	}
	return fmt.Errorf("podlabel: patch pod %s: %w", pod, cleaned(err))
}

// cleaned makes the text of an error safe to log: parts of it come from the API server.
func cleaned(err error) error {
	return fmt.Errorf("%s", clean.Text(err.Error(), 500, false))
}
