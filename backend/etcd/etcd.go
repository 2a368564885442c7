package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// Name is how this backend is registered.
const Name = "etcd"

// DefaultPrefix is the prefix of all keys if Options name none.
const DefaultPrefix = "election/"

// Options says which cluster and which keys. Either Endpoints or Client is set.
type Options struct {
	// Endpoints are the client URLs of some members of the cluster, such as
	// "https://etcd1:2379". Without a scheme: http, or https if TLS is set. All
	// should be given: a call that one member does not answer goes to another.
	Endpoints []string

	// Prefix begins every key. It ends in "/". None may lie among the keys of another, such
	// as "election/record/" in "election/".
	// Up to 255 bytes of printable text. Default: DefaultPrefix. Elections of one
	// prefix are read together: give fleets that have nothing to do with each
	// other prefixes of their own.
	Prefix string

	// Username and Password log in, if the cluster has users. They are sent with
	// https only, unless the endpoints say http. Default: no user, or the common
	// name of the client certificate where the cluster takes that.
	Username, Password string

	// CAFile, CertFile and KeyFile are PEM files: the authorities to trust
	// instead of the system's, and a certificate of one's own with its key.
	CAFile, CertFile, KeyFile string

	// TLS is the same for programs. It is copied. Not together with the files.
	TLS *tls.Config

	// Client is an existing client, with an own way to log in. Close leaves it
	// open. Nothing of the above but Prefix is set with it.
	Client *clientv3.Client
}

// Limits of a TTL. etcd's own leader is replaced within two seconds or so. And what
// nobody knows is watched for as long as somebody may have asked for.
const (
	minTTL = time.Second
	maxTTL = 5 * time.Minute
)

// A Backend keeps leases in etcd. It implements [backend.Backend].
type Backend struct {
	client      *clientv3.Client
	ownClient   bool // the client is ours to close
	connections connections
	login       *login
	keys        keys
	owner       backend.SingleOwner

	leaseMutex   chan struct{} // taken by who makes an etcd lease
	sessionMutex chan struct{} // taken by who writes the session's key

	mu             sync.Mutex
	session        *session              // nil: none
	leaseID        clientv3.LeaseID      // what the session's key and the member record hang on; 0: none
	keptAlive      time.Time             // when that was last kept alive
	announced      announced             // the member's record
	held           map[string]*heldLease // elections that may be held: then Close ends nothing. nil: it is not known what was written
	lastRead       *readResult           // the last one of a few elections; nil if it has served
	cache          watchCache
	hadRecord      map[string]bool // the elections that were read; true: with a record
	newestRevision int64           // the greatest revision seen
	longestTTL     time.Duration   // the greatest TTL that is known to have been bid with
	restoredAt     int64           // the store has gone back to this revision; 0: never
}

var _ backend.Backend = (*Backend)(nil)

// Format prints the name of the type and nothing that may be secret, whatever the
// verb.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "etcd.Options") }

// Format prints the name of the type and nothing that may be secret, whatever the
// verb.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "etcd.Backend") }

func init() {
	backend.Register(Name, func(ctx context.Context, decode func(any) error) (backend.Backend, error) {
		var c struct {
			Endpoints []string `yaml:"endpoints" json:"endpoints"`
			Prefix    string   `yaml:"prefix" json:"prefix"`
			Username  string   `yaml:"username" json:"username"`
			Password  string   `yaml:"password" json:"password"`
			CAFile    string   `yaml:"ca_file" json:"ca_file"`
			CertFile  string   `yaml:"cert_file" json:"cert_file"`
			KeyFile   string   `yaml:"key_file" json:"key_file"`
		}
		if err := decode(&c); err != nil {
			return nil, err
		}
		return Open(ctx, Options{Endpoints: c.Endpoints, Prefix: c.Prefix, Username: c.Username, Password: c.Password,
			CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile})
	})
}

// Open checks o and returns a Backend. It does not talk to the cluster, which
// may be down: the first call does.
func Open(_ context.Context, o Options) (*Backend, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if err := backend.CheckText("prefix", o.Prefix, backend.MaxName, false); err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	if !strings.HasSuffix(o.Prefix, "/") {
		return nil, fmt.Errorf("etcd: %w: prefix %q does not end in /", backend.ErrInvalid, o.Prefix)
	}
	b := &Backend{
		keys: keys(o.Prefix), leaseMutex: make(chan struct{}, 1), sessionMutex: make(chan struct{}, 1),
		held: map[string]*heldLease{}, hadRecord: map[string]bool{},
	}
	if err := b.connect(o); err != nil {
		return nil, err
	}
	return b, nil
}

// Location implements [backend.Located].
func (b *Backend) Location() string { return backend.Place(string(b.keys), b.client.Endpoints()...) }

// Guarantees says what etcd can promise.
func (b *Backend) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name: Name, MinTTL: minTTL, MaxTTL: maxTTL,
		// That etcd ends leases is not waited for.
		Expiry: backend.ByChallengers,
		Push:   true, Poll: true, // changes are pushed, renewals are not
		Marks: true, Exclusive: true, DurableTerms: true,
	}
}

// Close gives back the etcd lease if nothing is held, and else takes away the member's
// record; and it closes the client if it is ours. What is held runs out. It takes half a
// second at most.
func (b *Backend) Close() error {
	if !b.owner.Close() {
		return nil
	}
	b.mu.Lock()
	id, holding := b.leaseID, len(b.held) > 0
	b.mu.Unlock()
	if id != 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if holding { // its heartbeats stay, so that nobody watches anew
			b.client.Delete(ctx, b.keys.candidate(b.owner.Nonce())) // if it fails, that runs out
		} else {
			b.client.Revoke(ctx, id) // the same
		}
	}
	if !b.ownClient {
		return nil
	}
	if err := b.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return b.fail("close", err)
	}
	return nil
}

// enter begins a call for the candidate with this nonce, or for nobody ("").
func (b *Backend) enter(nonce string) error {
	if err := b.owner.Admit(nonce); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	return nil
}
