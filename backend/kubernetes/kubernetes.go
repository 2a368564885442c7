package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/single"
	"github.com/go-election/go-election/internal/client"
)

// Name is how this backend is registered.
const Name = "kubernetes"

// Least and greatest TTL.
const (
	MinTTL = time.Second
	MaxTTL = 5 * time.Minute
)

// Options say which Leases to use, and how to reach the API server. All members of a fleet must have
// the same Namespace and Prefix.
type Options struct {
	// Namespace has the Leases. Default: that of this pod; with Config, "default". With a kubeconfig there is
	// no default: the namespace of its context is what somebody has set for kubectl.
	Namespace string `yaml:"namespace" json:"namespace"`

	// Prefix begins the names of all Leases: up to 60 lower-case letters, digits, - and ., the first of them
	// a letter or digit. Fleets have different elections unless the prefix of one begins that of another.
	// Default: none, so that an election has the Lease of its name.
	Prefix string `yaml:"prefix" json:"prefix"`

	// Kubeconfig is a file in the form that kubectl reads, and Context is one of its contexts. Default:
	// in a pod, its service account; elsewhere the files that kubectl would read, and the one context
	// that they have. If they have several, Context must be set.
	Kubeconfig string `yaml:"kubeconfig" json:"kubeconfig"`
	Context    string `yaml:"context" json:"context"`

	// Config is a client's configuration, instead of a kubeconfig. It is copied. Its limits of requests
	// per second are not used: a lease that waits for them is lost.
	Config *rest.Config `yaml:"-" json:"-"`
}

// A Backend keeps leases in Lease objects. It implements [backend.Backend].
type Backend struct {
	client    typed.LeaseInterface
	namespace string
	through   string // what requests depend on besides the server, for errors
	transport *transport
	names     naming
	owner     single.Owner

	mu      sync.Mutex
	objects map[string]*object // by name: the census, and each Lease that is followed; nil: not read yet
	longest time.Duration      // the greatest TTL that was granted, as far as this process knows
	terms   map[string]uint64  // by name of the Lease: the greatest term that this process has read

	back   time.Time // when the store was seen to go back; zero: never
	backTo uint64    // what has this resourceVersion or an older one may be from before that

	watch *watch

	ages      lease.Ages          // of members
	member    *coordination.Lease // this process's own, as it was written last
	enrolling chan struct{}       // held while this process writes the census
}

var (
	_ backend.Marker      = (*Backend)(nil)
	_ backend.Adopter     = (*Backend)(nil)
	_ backend.Preflighter = (*Backend)(nil)
	_ backend.Inspector   = (*Backend)(nil)
	_ backend.Located     = (*Backend)(nil)
)

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "kubernetes.Options") }

// Format is like that of Options.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "kubernetes.Backend") }

func init() { backend.Register(Name, Options{}, Open) }

// Open checks o and returns a Backend. The API server may be down: the first call connects to it.
func Open(o Options) (*Backend, error) {
	b, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w: %w", backend.ErrInvalid, err)
	}
	return b, nil
}

func open(o Options) (*Backend, error) {
	if len(o.Prefix) > 60 || !subdomain(o.Prefix+"x") || strings.HasPrefix(o.Prefix, "go-election") {
		return nil, fmt.Errorf("prefix is %.80q; it must be up to 60 lower-case letters, digits, - and ., "+
			"and begin with a letter or digit, but not with go-election", o.Prefix)
	}
	if o.Config != nil && o.Kubeconfig+o.Context != "" {
		return nil, errors.New("kubeconfig or context is set together with Config")
	}
	if o.Config != nil {
		o.Config = rest.CopyConfig(o.Config) // the program's may change
	}
	at, err := o.place()
	if err != nil {
		return nil, err
	}
	if validation.IsDNS1123Label(at.namespace) != nil {
		return nil, fmt.Errorf("namespace is %.80q; it must be up to 63 lower-case letters, digits and -",
			at.namespace)
	}
	t := &transport{options: o, host: at.config.Host}
	useErr := t.use(at.config)
	leases, err := typed.NewForConfigAndClient(at.config, &http.Client{Transport: t})
	if err := cmp.Or(useErr, err); err != nil {
		return nil, clean.Secrets(err, t.secrets.All()...)
	}
	return &Backend{
		client: leases.Leases(at.namespace), namespace: at.namespace,
		through: at.through, transport: t, names: naming{o.Prefix},
		objects: map[string]*object{naming{o.Prefix}.census(): nil}, terms: map[string]uint64{},
		enrolling: make(chan struct{}, 1),
	}, nil
}

func (b *Backend) Location() string {
	return clean.Location(b.namespace+"/"+b.names.prefix, b.transport.host)
}

func (b *Backend) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name: Name, MinTTL: MinTTL, MaxTTL: MaxTTL,
		Expiry: backend.ByChallengers, Push: true, Exclusive: true, DurableTerms: true,
	}
}

// Close deletes this process's member record, which must not take long, and ends the watch.
func (b *Backend) Close() error {
	if !b.owner.Close() {
		return nil
	}
	b.mu.Lock()
	b.stopWatch()
	l := b.member
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if l != nil { // if it fails, another member deletes the record
		b.client.Delete(ctx, l.Name, meta.DeleteOptions{})
	}
	net.CloseIdleConnectionsFor(b.transport)
	return nil
}

// enter begins a call for the candidate with this nonce, or for none ("").
func (b *Backend) enter(ctx context.Context, verb string, nonce backend.Nonce) error {
	return b.wrap(verb, b.owner.Enter(ctx, nonce))
}

var (
	// errBack says that the store of the API server was taken back to an earlier state.
	errBack = fmt.Errorf("%w: the cluster's store went back to an earlier state; every lease is watched anew",
		backend.ErrUnavailable)

	errBusy = fmt.Errorf("%w: other processes kept changing the same Lease", backend.ErrUnavailable)
)

// conflict reports whether a write was refused because the Lease is not as it was read.
func conflict(err error) bool {
	return (api.IsConflict(err) || api.IsAlreadyExists(err)) && !byPolicy(err) || errors.Is(err, errLed)
}

// byPolicy reports whether a webhook or policy has denied a request, with a status that somebody has chosen.
func byPolicy(err error) bool { return strings.Contains(err.Error(), " denied ") }

// unusable matches what client-go says of a command for credentials that cannot be run.
var unusable = regexp.MustCompile("credential plugin that is not installed|cannot support interactive mode")

// fullEtcd is how the API server passes on that its etcd takes no more writes.
const fullEtcd = "database space exceeded"

// pageStatus returns the status of an answer that is a page for people: what stands before the API server has
// answered. It returns 0 for any other error.
func pageStatus(err error) int {
	if strings.Contains(err.Error(), "serializer for text/html") { // one to log in, say
		return http.StatusOK
	}
	status, _ := errors.AsType[*api.StatusError](err)
	cause, _ := api.StatusCause(err, meta.CauseTypeUnexpectedServerResponse)
	if status == nil || !strings.HasPrefix(cause.Message, "<") {
		return 0
	}
	return int(status.ErrStatus.Code)
}

// class returns the class of an error of the client. An administrator must act if the client has done wrong,
// unless others were only faster, or too many.
func class(err error) error {
	text, page, code := err.Error(), pageStatus(err), 0
	if e, ok := errors.AsType[*api.StatusError](err); ok {
		code = int(e.ErrStatus.Code)
	}
	switch {
	case client.RefusesTLS(text), strings.Contains(text, fullEtcd), unusable.MatchString(text),
		strings.Contains(text, http.StatusText(http.StatusProxyAuthRequired)):
		return backend.ErrDenied
	case code == http.StatusRequestTimeout, code == http.StatusConflict, code == http.StatusTooManyRequests,
		code == http.StatusGone && page == 0, code >= 500:
		return backend.ErrUnavailable
	case page > 0, code/100 == 4:
		return backend.ErrDenied
	}
	return backend.ErrUnavailable
}

// fail adds to an error of the client, or of a context, its class and what an operator must do, and removes
// secrets. An error that has a class is one of this package, or was here before.
func (b *Backend) fail(err error) error {
	if err == nil || errors.Is(err, backend.Class(err)) {
		return err
	}
	c, hint := class(err), ""
	switch page := pageStatus(err); {
	case page > 0:
		err = fmt.Errorf("a page has answered, not the API server: %d %s", page, http.StatusText(page))
		hint = b.through
	case api.IsForbidden(err) && strings.Contains(err.Error(), ` resource "leases" in `): // no quota
		hint = "; an administrator can grant what is needed: kubectl create role election -n " + b.namespace +
			" --resource=leases.coordination.k8s.io --verb=get,list,watch,create,update,delete"
	case api.IsUnauthorized(err) && !byPolicy(err):
		hint = "; renew the token or certificate of this process: its files are read again"
	case strings.Contains(err.Error(), fullEtcd):
		hint = "; compact and defragment the cluster's etcd, then: etcdctl alarm disarm"
	case api.ReasonForError(err) == meta.StatusReasonUnknown:
		hint = b.through
	}
	return fmt.Errorf("%w: %w%s", c, clean.Secrets(err, b.transport.secrets.All()...), hint)
}

// wrap says what was done when err came, and classes it.
func (b *Backend) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("kubernetes: %s: %w", what, b.fail(err))
}
