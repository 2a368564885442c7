// Package natskv keeps leases in a key-value bucket of NATS JetStream, server 2.12 or later. Changes
// are atomic batches: a message requires the revision of its own key if it puts an item, another's if
// it goes to a scratch key. The stream has the subject "$KV.<bucket>.<epoch>.>", with a random epoch: a
// late change to another bucket of the same name reaches nobody. The stream has one replica: with three, a
// server that was stopped and continued has led to two leaders, so this package refuses such a stream.
// Without sync_interval: always in the server's configuration, a power failure may undo acknowledged
// writes of the last two minutes.
package natskv

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

type driver struct {
	bucket  string
	nc      *nats.Conn
	js      jetstream.JetStream
	current atomic.Pointer[store] // nil: it must be looked up

	mu       sync.Mutex
	epoch    string // that of the following
	seen     uint64 // the greatest revision of any answer
	wentBack int
	backTo   uint64 // the revision to which the store went back
}

// A store is the bucket as it was looked up.
type store struct {
	epoch, prefix string // prefix: of all subjects, with the epoch
	stream        jetstream.Stream
}

// Open returns a driver of a bucket, for [lease.New]. If there is no such bucket, the first call makes it.
// url and options are those of [nats.Connect]. The servers may be down.
func Open(url, bucket string, options ...nats.Option) (_ lease.Driver, err error) {
	d := &driver{bucket: bucket}
	d.nc, err = nats.Connect(url, append([]nats.Option{
		nats.Name("go-election"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(100 * time.Millisecond), nats.Timeout(500 * time.Millisecond),
		nats.PingInterval(500 * time.Millisecond), nats.MaxPingsOutstanding(1), // a connection that is cut tells nobody
		nats.ReconnectBufSize(-1), // what cannot be sent now is not sent later
		nats.ReconnectHandler(func(*nats.Conn) { d.current.Store(nil) }),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the call that is concerned returns it
	}, options...)...)
	if err != nil { // its text may contain the URL
		return nil, fmt.Errorf("nats: %w: the URL or the options cannot be used", backend.ErrInvalid)
	}
	d.js, err = jetstream.New(d.nc)
	return d, err
}

// The server deletes a session that was not written for sessionLasts. That only clears up: members write theirs once a TTL.
const (
	maxTTL       = 5 * time.Minute
	sessionLasts = 24 * maxTTL
)

func (d *driver) Close() error   { go d.nc.Close(); return nil } // it waits while the client dials
func (d *driver) Now() time.Time { return time.Now() }
func (d *driver) Limits() lease.Limits {
	return lease.Limits{Name: "nats", MinTTL: time.Second, MaxTTL: maxTTL, Batch: 100, Checks: 99, MaxValue: 1 << 19}
}

// failed returns err with its class.
func (d *driver) failed(err error) error {
	last := d.nc.LastError() // the server does not answer a request for which a right is missing
	var api *jetstream.APIError
	switch {
	case err == nil, errors.Is(err, backend.Class(err)):
		return err
	case errors.Is(last, nats.ErrPermissionViolation), errors.Is(last, nats.ErrAuthorization), errors.Is(last, nats.ErrAuthExpired):
		return fmt.Errorf("%w: check the user's credentials and rights: %w", backend.ErrDenied, last)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.As(err, &api) && api.Code == 400:
		return fmt.Errorf("%w: the server refuses a request: %w", backend.ErrDenied, err)
	}
	d.current.Store(nil) // it may be another bucket
	return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
}

// lookUp returns the bucket, which it makes if there is none.
func (d *driver) lookUp(ctx context.Context) (s *store, err error) {
	if s := d.current.Load(); s != nil {
		return s, nil
	}
	s, base := &store{}, "$KV."+d.bucket+"."
	for again := true; again; { // another process may be making it: then the server may not answer
		attempt, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
		if s.stream, err = d.js.Stream(attempt, "KV_"+d.bucket); errors.Is(err, jetstream.ErrStreamNotFound) {
			s.stream, err = d.js.CreateStream(attempt, jetstream.StreamConfig{
				Name: "KV_" + d.bucket, Subjects: []string{base + string(backend.NewNonce()[:16]) + ".>"}, Replicas: 1, MaxMsgsPerSubject: 1,
				Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true, AllowMsgTTL: true, AllowAtomicPublish: true,
			})
		}
		cancel()
		again = ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse))
	}
	if err != nil {
		return nil, d.failed(err)
	}
	c := s.stream.CachedInfo().Config
	s.prefix = strings.TrimSuffix(strings.Join(c.Subjects, ","), ">")
	s.epoch = strings.Trim(strings.TrimPrefix(s.prefix, base), ".")
	if s.epoch == "" || strings.ContainsAny(s.epoch, ".,*>") || c.MaxMsgsPerSubject != 1 || c.Discard != jetstream.DiscardNew || c.Storage != jetstream.FileStorage ||
		c.MaxAge != 0 || !c.AllowDirect || !c.AllowMsgTTL || !c.AllowAtomicPublish {
		return nil, fmt.Errorf("%w: delete stream KV_%s, which this package has not made", backend.ErrDenied, d.bucket)
	}
	if c.Replicas != 1 {
		return nil, fmt.Errorf("%w: stream KV_%s has %d replicas; only one is safe", backend.ErrDenied, d.bucket, c.Replicas)
	}
	if _, err = d.js.Publish(ctx, s.prefix+"barrier", nil); err != nil { // so that no reading finds nothing
		return nil, d.failed(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epoch != s.epoch {
		d.epoch, d.seen, d.backTo = s.epoch, 0, 0
	}
	d.current.Store(s)
	return s, nil
}

type ack struct {
	Seq   uint64 // of the last message
	Error *jetstream.APIError
}

func (d *driver) send(ctx context.Context, batch []*nats.Msg) (a ack, err error) {
	id := string(backend.NewNonce())
	for i, m := range batch {
		if len(batch) > 1 {
			m.Header.Set("Nats-Batch-Id", id)
			m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		}
		if err == nil && i < len(batch)-1 {
			err = d.nc.PublishMsg(m)
		}
	}
	if last := batch[len(batch)-1]; err == nil {
		if len(batch) > 1 {
			last.Header.Set("Nats-Batch-Commit", "1")
		}
		var reply *nats.Msg
		if reply, err = d.nc.RequestMsgWithContext(ctx, last); err == nil {
			err = json.Unmarshal(reply.Data, &a)
		}
	}
	d.note(0, a.Seq)
	return a, d.failed(err)
}

// get reads the last messages of subjects, in parts one after the other, and the revision up to which
// all of them are known.
func (d *driver) get(ctx context.Context, s *store, subjects []string) (got map[string]*nats.Msg, upTo uint64, err error) {
	seen := d.note(0, 0)
	got = make(map[string]*nats.Msg, len(subjects))
	for from := 0; from == 0 || from < len(subjects); { // the server sends at most 1024 messages or 64 MiB
		part := append(slices.Clone(subjects[from:min(from+100, len(subjects))]), s.prefix+"barrier")
		at, err := d.getPart(ctx, part, got)
		if err != nil {
			return nil, 0, d.failed(err)
		}
		d.note(seen, at)
		upTo, from = cmp.Or(upTo, at), from+100
	}
	return got, upTo, nil
}

// getPart reads the last messages of subjects as they are at one revision.
func (d *driver) getPart(ctx context.Context, subjects []string, got map[string]*nats.Msg) (upTo uint64, err error) {
	request, _ := json.Marshal(map[string]any{"multi_last": subjects})
	inbox := d.nc.NewInbox()
	sub, err := d.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, err
	}
	defer sub.Unsubscribe()
	err = d.nc.PublishRequest("$JS.API.DIRECT.GET.KV_"+d.bucket, inbox, request)
	for err == nil {
		var m *nats.Msg
		if m, err = sub.NextMsgWithContext(ctx); err != nil {
			break
		}
		switch status := m.Header.Get("Status"); {
		case status == "":
			got[m.Header.Get("Nats-Subject")] = m
		case status == "204" && m.Header.Get("Nats-Num-Pending") == "0":
			return strconv.ParseUint(m.Header.Get("Nats-UpTo-Sequence"), 10, 64)
		default: // 404: not even the barrier is there, so it is another bucket
			d.current.Store(nil)
			err = fmt.Errorf("%w: a reading ends with %s %s", backend.ErrUnavailable, status, m.Header.Get("Description"))
		}
	}
	return 0, err
}

// note notes the revision of an answer, and returns the greatest. If it is less than what was seen before
// the call, the store went back.
func (d *driver) note(seen, at uint64) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at < seen && seen <= d.seen {
		d.wentBack, d.backTo, d.seen = d.wentBack+1, at, at
	}
	d.seen = max(d.seen, at)
	return d.seen
}

// hasGoneBack returns how often the store went back, as far as is known.
func (d *driver) hasGoneBack() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wentBack
}

const (
	created = "Election-Created" // the revision that made the item; none: this one
	sum     = "Election-Sum"     // shows that this package wrote it
	gone    = "Election-Gone"    // it was deleted
)

// subject returns the subject of an item.
func (s *store) subject(k lease.Key) string {
	return s.prefix + string(k.Kind) + ".n" + base64.RawURLEncoding.EncodeToString([]byte(k.Name))
}

// checksum returns what header sum of a message says.
func checksum(m *nats.Msg) string {
	subject := cmp.Or(m.Header.Get("Nats-Subject"), m.Subject) // of an answer: its inbox
	return fmt.Sprintf("%.16x", sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", subject, m.Header.Get(created), m.Data)))
}

// item returns an item as its message has it; nil: there is none.
func (s *store) item(k lease.Key, m *nats.Msg, backTo uint64) lease.Item {
	it := lease.Item{Key: k}
	if m != nil {
		it.Order, _ = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	}
	if m == nil || m.Header.Get(gone) != "" {
		return it // with the order of its marker, over which it is made again
	}
	it.Version, it.Old, it.Age = m.Header.Get("Nats-Sequence"), it.Order <= backTo, -1
	it.Value, it.Created = lease.Decode(k.Kind, m.Data), cmp.Or(m.Header.Get(created), it.Version)
	it.Edited = m.Header.Get(sum) != checksum(m)
	return it
}

func (d *driver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	_, v, err := d.read(ctx, keys)
	if err == nil && slices.ContainsFunc(keys, func(k lease.Key) bool { return k.Kind == lease.Metas }) {
		all, failed := d.list(ctx, lease.Records, "", v.Position) // after the items: a record that is deleted meanwhile must not be counted
		v.Records, err = int64(len(all.Items)), failed
	}
	return v, err
}

func (d *driver) read(ctx context.Context, keys []lease.Key) (s *store, v lease.View, err error) {
	if s, err = d.lookUp(ctx); err != nil {
		return s, v, err
	}
	subjects := make([]string, len(keys))
	for i, k := range keys {
		subjects[i] = s.subject(k)
	}
	got, upTo, err := d.get(ctx, s, subjects)
	d.mu.Lock()
	defer d.mu.Unlock()
	v = lease.View{Epoch: s.epoch, WentBack: d.wentBack, Position: upTo}
	for i, k := range keys {
		v.Items = append(v.Items, s.item(k, got[subjects[i]], d.backTo))
	}
	return s, v, err
}

// list reads the items of a kind with names not less than from, as they are at a revision or later.
func (d *driver) list(ctx context.Context, kind lease.Kind, from string, atLeast uint64) (v lease.View, err error) {
	s, err := d.lookUp(ctx)
	if err != nil {
		return v, err
	}
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(s.prefix+string(kind)+".*"))
	if err != nil || info.State.LastSeq < atLeast {
		return v, d.failed(cmp.Or(err, errors.New("the store went back meanwhile")))
	}
	var keys []lease.Key
	for subject := range info.State.Subjects {
		name, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(subject, s.prefix+string(kind)+".n"))
		if string(name) >= from {
			keys = append(keys, lease.Key{Kind: kind, Name: string(name)})
		}
	}
	slices.SortFunc(keys, func(a, b lease.Key) int { return strings.Compare(a.Name, b.Name) })
	_, v, err = d.read(ctx, keys)
	v.Items = slices.DeleteFunc(v.Items, func(it lease.Item) bool { return it.Version == "" })
	return v, err
}

func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	v, err := d.list(ctx, kind, from, 0)
	v.Items = v.Items[:min(limit, len(v.Items))]
	return v, err
}

func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (w lease.Written, err error) {
	if d.hasGoneBack() != wentBack {
		return w, lease.ErrEpoch
	}
	w.Results = make([]lease.Result, len(changes))
	err = d.apply(ctx, epoch, changes, w.Results)
	if err == nil && d.hasGoneBack() != wentBack { // an answer has shown it
		return lease.Written{}, lease.ErrEpoch
	}
	if err != nil || len(verify) == 0 {
		return w, err
	}
	now, err := d.present(ctx, epoch, verify)
	for n, it := range now {
		if err == nil && it.Version != verify[n].Version {
			w.Stale = append(w.Stale, n)
		}
	}
	return w, err
}

// present reads items as they are now in the same epoch.
func (d *driver) present(ctx context.Context, epoch string, items []lease.Item) ([]lease.Item, error) {
	keys := make([]lease.Key, len(items))
	for i, it := range items {
		keys[i] = it.Key
	}
	_, v, err := d.read(ctx, keys)
	if err == nil && v.Epoch != epoch {
		err = lease.ErrEpoch
	}
	return v.Items, err
}

// apply sends changes together, and sets their results. If a batch is refused, it reads which of the
// changes do not hold, and sends the others again.
func (d *driver) apply(ctx context.Context, epoch string, changes []lease.Change, results []lease.Result) error {
	s, err := d.lookUp(ctx)
	if err != nil || s.epoch != epoch {
		return cmp.Or(err, lease.ErrEpoch)
	}
	now := map[lease.Key]lease.Item{} // as items were read by this call
	reread := slices.ContainsFunc(needs(changes...), func(it lease.Item) bool { return it.Remembered && it.Value != nil })
	for round := range 100 + len(changes) {
		if reread {
			items, err := d.present(ctx, epoch, needs(changes...))
			if err != nil {
				return err
			}
			for _, it := range items {
				now[it.Key] = it
			}
		}
		part, size := []int(nil), 0 // the changes of this batch
		for n, c := range changes {
			all := needs(c)
			if results[n].Outcome != backend.Unknown || results[n].Err != nil {
				continue
			}
			if reread && slices.ContainsFunc(all, func(it lease.Item) bool { return !same(it, now[it.Key]) }) {
				results[n].Outcome = backend.Refused
			} else if size+len(all) <= 200 {
				part, size = append(part, n), size+len(all)
			}
		}
		if part == nil {
			return nil
		}
		seen := d.note(0, 0)
		a, err := d.send(ctx, s.batch(changes, part, now))
		if err != nil {
			return err
		}
		switch reread = false; {
		case a.Error == nil:
			d.note(seen, a.Seq)
			granted(changes, part, a.Seq, results)
		case a.Error.ErrorCode == 10071: // a revision that is required is not the present one
			reread = true
		case a.Error.ErrorCode == 10164, a.Error.ErrorCode == 10210: // the same key is being written, or too many batches are open
			time.Sleep(rand.N(time.Millisecond << min(round, 5)))
		default:
			for _, n := range part {
				results[n].Err = d.failed(a.Error)
			}
		}
	}
	return fmt.Errorf("%w: other writes of the same keys kept being on their way", backend.ErrUnavailable)
}

// needs returns the items that changes require.
func needs(changes ...lease.Change) (items []lease.Item) {
	for _, c := range changes {
		items = append(items, c.Check...)
		for _, p := range c.Put {
			items = append(items, p.Over)
		}
	}
	return items
}

// same reports whether an item is as it was read. A bucket that was restored counts revisions anew.
func same(it, now lease.Item) bool {
	return now.Version == it.Version && (!it.Remembered || it.Value == nil || now.Value != nil && lease.Encode(now.Value) == lease.Encode(it.Value))
}

// batch returns the messages of changes: first all checks, then all puts.
func (s *store) batch(changes []lease.Change, part []int, now map[lease.Key]lease.Item) (batch []*nats.Msg) {
	required := func(subject string, it lease.Item) *nats.Msg {
		m := nats.NewMsg(subject)
		if read, ok := now[it.Key]; ok && it.Version == "" {
			it = read // its marker
		}
		m.Header.Set("Nats-Expected-Last-Subject-Sequence", cmp.Or(it.Version, strconv.FormatUint(it.Order, 10)))
		return m
	}
	for _, n := range part {
		for _, it := range changes[n].Check {
			batch = append(batch, required(s.prefix+"check", it))
			batch[len(batch)-1].Header.Set("Nats-Expected-Last-Subject-Sequence-Subject", s.subject(it.Key))
		}
	}
	for _, n := range part {
		for _, p := range changes[n].Put {
			m := required(s.subject(p.Over.Key), p.Over)
			if p.Value == nil {
				m.Header.Set(gone, "1")
				m.Header.Set("KV-Operation", "DEL")
			} else {
				m.Data = []byte(lease.Encode(p.Value))
				m.Header.Set(created, p.Over.Created)
				m.Header.Set(sum, checksum(m))
			}
			if p.Over.Kind == lease.Sessions {
				m.Header.Set("Nats-TTL", sessionLasts.String())
			}
			batch = append(batch, m)
		}
	}
	return batch
}

// granted sets the results of changes whose last message has a revision. Puts come last.
func granted(changes []lease.Change, part []int, last uint64, results []lease.Result) {
	for _, n := range slices.Backward(part) {
		results[n].Outcome = backend.Granted
		for _, p := range slices.Backward(changes[n].Put) {
			it := lease.Item{Key: p.Over.Key, Order: last, Age: -1}
			if p.Value != nil {
				it.Version = strconv.FormatUint(last, 10)
				it.Created = cmp.Or(p.Over.Created, it.Version)
			}
			results[n].Items = append(results[n].Items, it)
			last--
		}
		slices.Reverse(results[n].Items)
	}
}

// Listen implements [lease.Listener]. It only says that a record has changed.
func (d *driver) Listen(ctx context.Context, position uint64, _ []lease.Item, on func([]lease.Item, uint64) bool) error {
	s, v, err := d.read(ctx, nil)
	if err != nil || position == 0 || v.Position < position {
		return err
	}
	var w jetstream.KeyWatcher
	kv, err := d.js.KeyValue(ctx, d.bucket)
	if err == nil {
		w, err = kv.Watch(ctx, s.epoch+"."+string(lease.Records)+".*", jetstream.ResumeFromRevision(position+1), jetstream.MetaOnly())
	}
	if err != nil {
		return d.failed(err)
	}
	defer w.Stop()
	for {
		select {
		case e := <-w.Updates(): // nil: all older ones were told
			if e != nil && !on(nil, e.Revision()) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
