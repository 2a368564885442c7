// Package natskv keeps leases in one key of a bucket of NATS JetStream: it is a [register.Register], and
// [register.New] makes a backend of it. A version is a revision of the key, and a swap requires it.
//
//	r, err := natskv.Open("nats://127.0.0.1:4222", "election")
//	m, err := election.New(register.New(r, natskv.Limits), election.Options{})
//
// # What two processes could each believe
//
// Revisions of a bucket never come twice, but another bucket of the same name counts anew. So the key begins
// with an epoch, random text in the subject of the bucket's stream: a late change to a former one is lost.
//
// The stream has one replica. With three, a server of NATS 2.15 that was stopped and then continued has led
// to two leaders for a fifth of a second, in one run of a few; why is not known yet. So this package refuses
// such a stream. It also refuses direct readings, which a mirror may answer.
//
// Without "sync_interval: always" in the server's configuration a power failure may undo acknowledged writes
// of the last two minutes; and somebody may put back an older copy of the stream. Package register notices
// both by its count. But revisions then count anew, and a swap that was on its way could meet the very number
// that it requires. So set that option, and put a copy back when no process is running.
package natskv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/register"
)

// Limits are what a key allows: servers take messages of 1 MiB by default, with their headers.
var Limits = register.Limits{Name: "nats", MinTTL: time.Second, MaxTTL: 5 * time.Minute, MaxBytes: 1_000_000}

// A Register is a key in a bucket. It implements [register.Register] and [register.Waiter].
type Register struct {
	bucket string
	nc     *nats.Conn
	js     jetstream.JetStream
	found  atomic.Pointer[place] // nil: it must be looked up
}

// A place is the bucket as it was looked up, and the key in it.
type place struct {
	jetstream.KeyValue
	key string
}

// Open returns a key of a bucket. If there is no such bucket, the first call makes it. url and options are
// those of [nats.Connect]. The servers may be down.
func Open(url, bucket string, options ...nats.Option) (*Register, error) {
	r := &Register{bucket: bucket}
	options = append([]nats.Option{
		nats.Name("go-election"),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(100 * time.Millisecond), nats.Timeout(500 * time.Millisecond),
		nats.PingInterval(500 * time.Millisecond), nats.MaxPingsOutstanding(1), // a cut is silent
		nats.ReconnectBufSize(-1), // what cannot be sent now is not sent later
		nats.ReconnectHandler(func(*nats.Conn) { r.found.Store(nil) }),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the call returns it
	}, options...)

	var err error
	if r.nc, err = nats.Connect(url, options...); err != nil { // its text may contain the URL
		return nil, fmt.Errorf("nats: %w: the URL or the options cannot be used", backend.ErrInvalid)
	}
	r.js, err = jetstream.New(r.nc)
	return r, err
}

// Close implements [register.Register]. It does not wait while the client dials.
func (r *Register) Close() error {
	go r.nc.Close()
	return nil
}

// Get implements [register.Register].
func (r *Register) Get(ctx context.Context) (value []byte, version string, err error) {
	p, err := r.lookUp(ctx)
	if err != nil {
		return nil, "", err
	}
	e, err := p.Get(ctx, p.key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return nil, "", nil
	case err != nil:
		return nil, "", r.failed(err)
	}
	return e.Value(), strconv.FormatUint(e.Revision(), 10), nil
}

// Swap implements [register.Register].
func (r *Register) Swap(ctx context.Context, version string, value []byte) (now string, err error) {
	p, err := r.lookUp(ctx)
	if err != nil {
		return "", err
	}
	var revision uint64
	if version == "" {
		revision, err = p.Create(ctx, p.key, value)
	} else if revision, err = strconv.ParseUint(version, 10, 64); err == nil {
		revision, err = p.Update(ctx, p.key, value, revision)
	} else {
		return "", register.ErrChanged
	}

	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return "", register.ErrChanged
	}
	return strconv.FormatUint(revision, 10), r.failed(err)
}

// Wait implements [register.Waiter].
func (r *Register) Wait(ctx context.Context, version string) error {
	p, err := r.lookUp(ctx)
	if err != nil {
		return err
	}
	revision, _ := strconv.ParseUint(version, 10, 64)
	w, err := p.Watch(ctx, p.key, jetstream.ResumeFromRevision(revision+1), jetstream.MetaOnly())
	if err != nil {
		return r.failed(err)
	}
	defer w.Stop()
	for {
		select {
		case e, open := <-w.Updates():
			if e != nil || !open { // nil: all older ones were told
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookUp returns the bucket and the key, and makes the bucket if there is none.
func (r *Register) lookUp(ctx context.Context) (*place, error) {
	if p := r.found.Load(); p != nil {
		return p, nil
	}
	s, err := r.stream(ctx)
	for ctx.Err() == nil && beingMade(err) {
		s, err = r.stream(ctx)
	}
	if err != nil {
		return nil, r.failed(err)
	}

	c, base := s.CachedInfo().Config, "$KV."+r.bucket+"."
	epoch := strings.TrimSuffix(strings.TrimPrefix(strings.Join(c.Subjects, ","), base), ".>")
	switch {
	case c.Replicas != 1:
		return nil, fmt.Errorf("%w: stream %s has %d replicas, not 1", backend.ErrDenied, c.Name, c.Replicas)
	case epoch == "" || strings.ContainsAny(epoch, ".,*>$"), c.AllowDirect, c.MaxAge != 0,
		c.Storage != jetstream.FileStorage, c.MaxMsgsPerSubject != 1, c.Discard != jetstream.DiscardNew:
		return nil, fmt.Errorf("%w: delete stream %s, which natskv has not made", backend.ErrDenied, c.Name)
	}
	kv, err := r.js.KeyValue(ctx, r.bucket)
	if err != nil {
		return nil, r.failed(err)
	}
	p := &place{kv, epoch + ".leases"}
	r.found.Store(p)
	return p, nil
}

// beingMade reports whether another process may be making the stream: then the server may not answer.
func beingMade(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse)
}

// stream returns the stream of the bucket, and makes it if there is none.
func (r *Register) stream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
	defer cancel()
	name := "KV_" + r.bucket
	s, err := r.js.Stream(ctx, name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return s, err
	}
	epoch := string(backend.NewNonce()[:16])
	return r.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{"$KV." + r.bucket + "." + epoch + ".>"}, Replicas: 1,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true,
	})
}

// failed returns err with its class.
func (r *Register) failed(err error) error {
	if err == nil || errors.Is(err, backend.Class(err)) {
		return err
	}
	last := r.nc.LastError() // the server does not answer a request for which a right is missing
	var api *jetstream.APIError
	switch {
	case errors.Is(last, nats.ErrPermissionViolation), errors.Is(last, nats.ErrAuthorization),
		errors.Is(last, nats.ErrAuthExpired):
		return fmt.Errorf("%w: check the user's credentials and rights: %w", backend.ErrDenied, last)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrMaxPayload),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.As(err, &api) && api.Code == 400:
		return fmt.Errorf("%w: the server refuses a request: %w", backend.ErrDenied, err)
	}
	r.found.Store(nil) // it may be another bucket
	return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
}
