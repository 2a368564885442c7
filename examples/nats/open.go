// Package natskv keeps leases in a key-value bucket of NATS JetStream, server 2.12 or later.
//
// Changes are atomic batches. A message of a batch can require the revision of one key: its own if
// it puts an item, another's if it goes to a scratch key that nobody reads.
//
// The stream has the subject "$KV.<bucket>.<epoch>.>", with a random epoch. So a late change to
// another bucket of the same name reaches nobody.
//
// A bucket with several replicas is read after a write: whichever replica answers must have it.
//
// An acknowledged write is on disk only if the servers have sync_interval: always. Otherwise a power
// failure may undo the last two minutes.
package natskv

import (
	"cmp"
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
	stream   string
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
	epoch, prefix string // prefix: of all subjects, with the epoch
	replicas      int
	stream        jetstream.Stream
}

func open(o Options) (*driver, error) {
	d := &driver{stream: "KV_" + cmp.Or(o.Bucket, "election"), replicas: max(1, o.Replicas)}
	if !regexp.MustCompile(`^[a-zA-Z0-9_-]{1,100}$`).MatchString(d.stream) {
		return nil, fmt.Errorf("nats: %w: a bucket's name has letters, digits, - and _, not %q", backend.ErrInvalid, o.Bucket)
	}
	options := []nats.Option{
		nats.Name("go-election"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(100 * time.Millisecond), nats.Timeout(2 * time.Second),
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

func (d *driver) Close() error   { d.nc.Close(); return nil }
func (d *driver) Now() time.Time { return time.Now() }
func (d *driver) Limits() lease.Limits {
	return lease.Limits{Name: Name, MinTTL: time.Second, MaxTTL: 5 * time.Minute, Batch: 100, MaxValue: 1 << 19}
}

// failed returns err with its class.
func (d *driver) failed(err error) error {
	last := d.nc.LastError() // the server does not answer a request for which a right is missing
	var api *jetstream.APIError
	switch {
	case err == nil, errors.Is(err, backend.Class(err)):
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
	base := "$KV." + strings.TrimPrefix(d.stream, "KV_") + "."
	s = &store{}
	if s.stream, err = d.js.Stream(ctx, d.stream); errors.Is(err, jetstream.ErrStreamNotFound) {
		s.stream, err = d.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: d.stream, Subjects: []string{base + string(backend.NewNonce()[:16]) + ".>"}, Description: "leases of go-election", Replicas: d.replicas,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true, AllowMsgTTL: true, AllowAtomicPublish: true,
		})
	}
	if err != nil {
		return nil, d.failed(err)
	}
	c := s.stream.CachedInfo().Config
	s.prefix = strings.TrimSuffix(strings.Join(c.Subjects, ","), ">")
	s.epoch, s.replicas = strings.Trim(strings.TrimPrefix(s.prefix, base), "."), c.Replicas
	if s.epoch == "" || strings.ContainsAny(s.epoch, ".,*>") || c.MaxMsgsPerSubject != 1 || c.Discard != jetstream.DiscardNew || c.Storage != jetstream.FileStorage ||
		c.MaxAge != 0 || !c.AllowDirect || !c.AllowMsgTTL || !c.AllowAtomicPublish {
		return nil, fmt.Errorf("%w: stream %s must have storage file, the subject %s<random text>.>, max_msgs_per_subject 1, discard new, no max_age, "+
			"allow_direct, allow_msg_ttl and allow_atomic", backend.ErrDenied, d.stream, base)
	}
	if _, err = d.ask(ctx, []*nats.Msg{{Subject: s.prefix + "barrier"}}); err == nil { // so that no reading finds nothing
		d.current.Store(s)
	}
	return s, err
}
