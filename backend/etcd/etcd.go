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
	"github.com/go-election/go-election/backend/clean"
)

// Name is how this backend is registered.
const Name = "etcd"

// DefaultPrefix is the prefix of all keys if Options name none.
const DefaultPrefix = "election/"

// Options says which cluster and which keys. Either Endpoints or Client is set.
type Options struct {
	// Endpoints are client URLs of the cluster's members, such as "https://etcd1:2379".
	// Without a scheme: http, or https if TLS is set. List all members: a call that
	// one member does not answer is sent to another.
	Endpoints []string

	// Prefix begins every key. It ends in "/" and has up to 255 bytes of printable text.
	// No prefix may lie among the keys of another, as "election/record/" does in
	// "election/". Elections of one prefix are read together: give unrelated fleets
	// different prefixes. Default: DefaultPrefix.
	Prefix string

	// Username and Password are the credentials, if the cluster has users. They are sent
	// unencrypted only if the endpoints are http. Default: no user, or the common name
	// of the client certificate if the cluster accepts it.
	Username, Password string

	// CAFile, CertFile and KeyFile are PEM files: the authorities to trust instead of the
	// system's, read by Open; and a client certificate with its key, read at each
	// connection.
	CAFile, CertFile, KeyFile string

	// TLS is a TLS configuration, instead of the files. It is copied.
	TLS *tls.Config

	// Client is an existing client, which logs in by itself. Close leaves it open. Of the
	// options above only Prefix may be set with it.
	Client *clientv3.Client
}

// The limits of a TTL. etcd replaces its own leader within about two seconds. If the
// greatest TTL ever granted is unknown, challengers watch for maxTTL.
const (
	minTTL = time.Second
	maxTTL = 5 * time.Minute
)

// A Backend keeps leases in etcd. It implements [backend.Backend].
type Backend struct {
	client      *clientv3.Client
	ownClient   bool // Close closes the client
	connections connections
	login       *login
	keys        keys
	owner       backend.SingleOwner

	leaseMutex   chan struct{} // held while an etcd lease is created
	sessionMutex chan struct{} // held while the session key is written

	mu             sync.Mutex
	session        *session              // nil: none
	leaseID        clientv3.LeaseID      // to which the session key and the member record are attached; 0: none
	keptAlive      time.Time             // when the etcd lease was last kept alive
	announced      announced             // the member record
	held           map[string]*heldLease // elections that this process may hold; a nil value: its grant was not confirmed
	lastRead       *readResult           // the last read of a few elections; nil: none, or it was used
	cache          watchCache
	hadRecord      map[string]bool // elections that this process has read; true: with a record
	newestRevision int64           // the greatest revision seen
	longestTTL     time.Duration   // the greatest TTL of a bid, as far as this process knows
	restoredAt     int64           // the revision to which the store went back; 0: it did not
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Marker  = (*Backend)(nil)
)

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "etcd.Options") }

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "etcd.Backend") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
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
		return Open(Options{Endpoints: c.Endpoints, Prefix: c.Prefix, Username: c.Username, Password: c.Password,
			CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile})
	})
}

// Open checks o and returns a Backend. The cluster may be down: the first call connects to it.
func Open(o Options) (*Backend, error) {
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
func (b *Backend) Location() string { return clean.Location(string(b.keys), b.client.Endpoints()...) }

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name: Name, MinTTL: minTTL, MaxTTL: maxTTL,
		Expiry: backend.ByChallengers, // no one waits for etcd to end a lease
		Push:   true, Poll: true,      // Listen returns for changes, not for renewals
		Marks: true, Exclusive: true, DurableTerms: true,
	}
}

// Close revokes the etcd lease. If leases may be held it only deletes the member record, and
// the held leases expire. Then it closes the client, unless the options gave it. The calls
// to etcd take half a second at most.
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
		if holding { // the session key stays, so that no challenger begins its watch anew
			b.client.Delete(ctx, b.keys.candidate(b.owner.Nonce())) // if it fails, the key expires
		} else {
			b.client.Revoke(ctx, id) // if it fails, the etcd lease expires
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

// enter begins a call for the candidate with this nonce, or for none ("").
func (b *Backend) enter(nonce backend.Nonce) error {
	if err := b.owner.Admit(nonce); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	return nil
}
