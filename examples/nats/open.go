// Package natskv keeps leases in a key-value bucket of NATS JetStream. It needs server 2.12.
//
// Each change of package lease is one atomic batch. A message of a batch can require the revision of
// one key: its own if it puts an item, another's if it goes to a scratch key that nobody reads.
//
// Key "epoch.E" was written when the bucket was made. E is a random text with which the keys of all
// items begin. So a late change to another bucket of the same name meets none of its items; and a
// change that requires only absence also requires the revision of that key.
//
// A bucket with several replicas is read after a write of the key "barrier": whichever replica
// answers must have that write.
//
// An acknowledged write is on disk only if the servers have sync_interval: always. Otherwise a power
// failure may undo the last two minutes.
package natskv

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Name is the name of this backend.
const Name = "nats"

// Options say where the bucket is.
type Options struct {
	URL         string `yaml:"url" json:"url"`                 // of the servers, separated by commas
	Bucket      string `yaml:"bucket" json:"bucket"`           // default: election
	Replicas    int    `yaml:"replicas" json:"replicas"`       // of a bucket that is made; default: 1
	Credentials string `yaml:"credentials" json:"credentials"` // a file with a JWT and an nkey
	CAFile      string `yaml:"ca_file" json:"ca_file"`
}

// Format prints only the name of the type, whatever the verb: the URL may contain a password.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "natskv.Options") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var o Options
		if err := decode(&o); err != nil {
			return nil, err
		}
		return Open(o)
	})
}

// Open returns a Backend. The servers may be down: the first call makes the bucket if there is none.
func Open(o Options) (*lease.Backend, error) {
	d, err := open(o)
	if err != nil {
		return nil, err
	}
	return lease.New(d), nil
}

// A driver is a client of one bucket.
type driver struct {
	bucket   string
	replicas int // of a bucket that is made
	nc       *nats.Conn
	js       jetstream.JetStream
	current  atomic.Pointer[store] // nil: it must be looked up

	mu       sync.Mutex
	seen     uint64 // the greatest revision of any answer
	wentBack int
	backTo   uint64 // the revision to which the store went back last
}

// A store is the bucket as it was looked up.
type store struct {
	epoch    string
	revision uint64 // of the key that has the epoch
	replicas int
	stream   jetstream.Stream
}

var word = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,100}$`)

func open(o Options) (*driver, error) {
	if o.Bucket == "" {
		o.Bucket = "election"
	}
	if !word.MatchString(o.Bucket) {
		return nil, fmt.Errorf("nats: %w: a bucket's name has letters, digits, - and _, not %q", backend.ErrInvalid, o.Bucket)
	}
	d := &driver{bucket: o.Bucket, replicas: max(1, o.Replicas)}
	options := []nats.Option{
		nats.Name("go-election"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(100 * time.Millisecond), nats.Timeout(2 * time.Second), nats.PingInterval(20 * time.Second),
		nats.ReconnectBufSize(-1), // what cannot be sent now is not sent later
		nats.ReconnectHandler(func(*nats.Conn) { d.current.Store(nil) }),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the call that is concerned returns it
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.CAFile != "" {
		options = append(options, nats.RootCAs(o.CAFile))
	}
	var err error
	if d.nc, err = nats.Connect(o.URL, options...); err != nil { // the text of err may contain the URL
		return nil, fmt.Errorf("nats: %w: the URL, the credentials or the CA file cannot be used", backend.ErrInvalid)
	}
	d.js, err = jetstream.New(d.nc)
	return d, err
}

// Close implements [lease.Driver].
func (d *driver) Close() error {
	d.nc.Close()
	return nil
}

// Limits implements [lease.Driver].
func (d *driver) Limits() lease.Limits {
	return lease.Limits{Name: Name, MinTTL: time.Second, MaxTTL: 5 * time.Minute, Batch: 100, MaxValue: 1 << 19}
}

// Now implements [lease.Driver].
func (d *driver) Now() time.Time { return time.Now() }

// failed returns err with its class.
func (d *driver) failed(err error) error {
	last := d.nc.LastError() // the server does not answer a request for which a right is missing
	var api *jetstream.APIError
	switch {
	case err == nil, errors.Is(err, backend.ErrUnavailable), errors.Is(err, backend.ErrDenied), errors.Is(err, backend.ErrInvalid):
		return err
	case errors.Is(last, nats.ErrPermissionViolation):
		return fmt.Errorf("%w: the user lacks a right: %w", backend.ErrDenied, last)
	case errors.Is(last, nats.ErrAuthorization), errors.Is(last, nats.ErrAuthExpired):
		return fmt.Errorf("%w: the server refuses the user: check the credentials", backend.ErrDenied)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w: JetStream is not enabled for this account", backend.ErrDenied)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: an item is greater than max_payload of the server", backend.ErrInvalid)
	case errors.As(err, &api) && api.Code == 400:
		return fmt.Errorf("%w: the server refuses a request: %s", backend.ErrDenied, api.Description)
	}
	return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
}

// lookUp returns the bucket, which it makes if there is none.
func (d *driver) lookUp(ctx context.Context) (s *store, err error) {
	if s := d.current.Load(); s != nil {
		return s, nil
	}
	s = &store{}
	if s.stream, err = d.js.Stream(ctx, "KV_"+d.bucket); errors.Is(err, jetstream.ErrStreamNotFound) {
		s.stream, err = d.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: "KV_" + d.bucket, Subjects: []string{d.subject(">")}, Description: "leases of go-election", Replicas: d.replicas,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true,
			AllowMsgTTL: true, AllowAtomicPublish: true,
		})
	}
	if err != nil {
		return nil, d.failed(err)
	}
	c, used := s.stream.CachedInfo().Config, s.stream.CachedInfo().State.Msgs
	if !c.AllowAtomicPublish || !c.AllowDirect || !c.AllowMsgTTL || c.MaxMsgsPerSubject != 1 || c.MaxAge != 0 || c.Discard != jetstream.DiscardNew || c.Storage != jetstream.FileStorage {
		return nil, fmt.Errorf("%w: stream KV_%s must have storage file, allow_atomic, allow_direct, allow_msg_ttl, max_msgs_per_subject 1, discard new and no max_age", backend.ErrDenied, d.bucket)
	}
	s.replicas = c.Replicas
	for range 3 {
		got, _, err := d.get(ctx, s, []string{d.subject("epoch.*")})
		if err != nil {
			return nil, err
		}
		for subject, m := range got {
			s.epoch, s.revision = strings.TrimPrefix(subject, d.subject("epoch.")), m.seq
		}
		if len(got) > 1 || len(got) == 0 && used > 1 { // one may be the barrier
			return nil, fmt.Errorf("%w: the key epoch of bucket %s was edited: stop all processes for the greatest TTL and delete the bucket", backend.ErrDenied, d.bucket)
		}
		if len(got) == 1 {
			d.current.Store(s)
			return s, nil
		}
		if _, err = d.ask(ctx, [][]*nats.Msg{{required(d.subject("epoch."+string(backend.NewNonce())), nil, d.subject("epoch.*"), 0)}}); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: the bucket's epoch cannot be written", backend.ErrUnavailable)
}
