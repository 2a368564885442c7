package natskv

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Headers of items, beside those of NATS.
const (
	created = "Election-Created" // the revision that made the item; none: this one
	sum     = "Election-Sum"     // shows that this package wrote it
	gone    = "Election-Gone"    // it was deleted
)

// subject returns the subject of a key of the bucket.
func (d *driver) subject(key string) string { return "$KV." + d.bucket + "." + key }

// item returns the subject of an item.
func (d *driver) item(epoch string, k lease.Key) string {
	return d.subject(epoch + "." + string(k.Kind) + "." + encode(k.Name))
}

// encode makes a token of a name.
func encode(name string) string { return "n" + base64.RawURLEncoding.EncodeToString([]byte(name)) }

func decode(token string) string {
	name, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "n"))
	return string(name)
}

// checksum returns what header sum of a message says.
func checksum(subject, created string, data []byte) string {
	return fmt.Sprintf("%.16x", sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", subject, created, data)))
}

// read returns an item as its message has it; nil: there is none.
func read(k lease.Key, subject string, m *message, backTo uint64) lease.Item {
	it := lease.Item{Key: k}
	if m == nil {
		return it
	}
	it.Order = m.seq // with which an item that was deleted is made again
	if m.header.Get(gone) != "" {
		return it
	}
	it.Version, it.Old, it.Age = strconv.FormatUint(m.seq, 10), m.seq <= backTo, -1
	it.Value, it.Created = lease.Decode(k.Kind, m.data), m.header.Get(created)
	it.Edited = m.header.Get(sum) != checksum(subject, it.Created, m.data)
	if it.Created == "" {
		it.Created = it.Version
	}
	return it
}

// Read implements [lease.Driver].
func (d *driver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	s, v, err := d.view(ctx, keys)
	if err == nil && slices.ContainsFunc(keys, func(k lease.Key) bool { return k.Kind == lease.Metas }) {
		v.Records, err = d.count(ctx, s, v.Position)
	}
	return v, err
}

// view reads items.
func (d *driver) view(ctx context.Context, keys []lease.Key) (s *store, v lease.View, err error) {
	for range 3 {
		if s, err = d.lookUp(ctx); err != nil {
			return s, v, err
		}
		subjects := []string{d.subject("epoch." + s.epoch)}
		for _, k := range keys {
			subjects = append(subjects, d.item(s.epoch, k))
		}
		got, upTo, err := d.get(ctx, s, subjects)
		if err != nil {
			return s, v, err
		}
		if m := got[subjects[0]]; m == nil || m.seq != s.revision {
			d.current.CompareAndSwap(s, nil)
			continue
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		v = lease.View{Epoch: s.epoch, WentBack: d.wentBack, Position: upTo}
		for i, k := range keys {
			v.Items = append(v.Items, read(k, subjects[i+1], got[subjects[i+1]], d.backTo))
		}
		return s, v, nil
	}
	return s, v, lease.ErrEpoch
}

// names returns the names of items of a kind, with those of deleted ones, at a revision or later.
func (d *driver) names(ctx context.Context, s *store, kind string, atLeast uint64) (names []string, err error) {
	prefix := d.subject(s.epoch + "." + kind + ".")
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(prefix+"*"))
	if err != nil {
		return nil, d.failed(err)
	}
	if info.State.LastSeq < atLeast {
		return nil, fmt.Errorf("%w: the leader of the stream has changed", backend.ErrUnavailable)
	}
	for subject := range info.State.Subjects {
		names = append(names, decode(strings.TrimPrefix(subject, prefix)))
	}
	slices.Sort(names)
	return names, nil
}

// count returns how many records there are. It is called after the items were read, because a record
// that is deleted meanwhile must not be counted. Kind gone lists those that this package deleted.
func (d *driver) count(ctx context.Context, s *store, atLeast uint64) (int64, error) {
	all, err := d.names(ctx, s, string(lease.Records), atLeast)
	if err != nil {
		return 0, err
	}
	deleted, err := d.names(ctx, s, "gone", atLeast)
	n := int64(len(all))
	if err == nil && len(deleted) > 0 {
		var subjects []string
		for _, name := range deleted {
			subjects = append(subjects, d.item(s.epoch, lease.Key{Kind: lease.Records, Name: name}))
		}
		var got map[string]*message
		got, _, err = d.get(ctx, s, subjects)
		for _, m := range got {
			if m.header.Get(gone) != "" {
				n--
			}
		}
	}
	return n, err
}

// List implements [lease.Driver].
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (v lease.View, err error) {
	s, v, err := d.view(ctx, nil)
	if err != nil {
		return v, err
	}
	names, err := d.names(ctx, s, string(kind), v.Position)
	first, _ := slices.BinarySearch(names, from)
	var items []lease.Item
	for part := range slices.Chunk(names[first:], limit) {
		var keys []lease.Key
		for _, name := range part {
			keys = append(keys, lease.Key{Kind: kind, Name: name})
		}
		if _, v, err = d.view(ctx, keys); err != nil || len(items) >= limit {
			break
		}
		items = append(items, slices.DeleteFunc(v.Items, func(it lease.Item) bool { return it.Version == "" })...)
	}
	v.Items = items[:min(limit, len(items))]
	return v, err
}

// Write implements [lease.Driver].
func (d *driver) Write(ctx context.Context, epoch string, changes []lease.Change, verify []lease.Item) (w lease.Written, err error) {
	w.Results = make([]lease.Result, len(changes))
	s, err := d.lookUp(ctx)
	if err == nil && s.epoch != epoch {
		err = lease.ErrEpoch
	}
	if err == nil {
		err = d.apply(ctx, s, changes, w.Results)
	}
	if err != nil || len(verify) == 0 {
		return w, err
	}
	var keys []lease.Key
	for _, it := range verify {
		keys = append(keys, it.Key)
	}
	_, v, err := d.view(ctx, keys)
	if err == nil && v.Epoch != epoch {
		err = lease.ErrEpoch
	}
	for n, it := range v.Items {
		if err == nil && it.Version != verify[n].Version {
			w.Stale = append(w.Stale, n)
		}
	}
	return w, err
}

// Error codes of the server: a revision that is required is not the present one; another write or
// check of the same key is not replicated yet; batches are open. All say that nothing was written.
const (
	wrongRevision = 10071
	inFlight      = 10164
	tooMany       = 10210
)

// apply makes changes, in this order, and sets their results.
func (d *driver) apply(ctx context.Context, s *store, changes []lease.Change, results []lease.Result) (err error) {
	absent := map[lease.Key]uint64{} // the revisions of markers of items that are not there
	var refused []int                // those of which it must be read why
	for n := range changes {
		if slices.ContainsFunc(needs(&changes[n]), func(it lease.Item) bool { return it.Remembered && it.Value != nil }) {
			refused = append(refused, n)
		}
	}
	for round := range 20 {
		if err := d.compare(ctx, s, changes, refused, results, absent); err != nil {
			return err
		}
		var todo []int
		var batches [][]*nats.Msg
		for n := range changes {
			if results[n].Outcome == backend.Unknown && results[n].Err == nil {
				todo, batches = append(todo, n), append(batches, d.batch(s, &changes[n], absent))
			}
		}
		if todo == nil {
			return nil
		}
		acks, err := d.ask(ctx, batches)
		refused = nil
		for k, n := range todo {
			switch a := acks[k]; {
			case a == nil:
			case a.Error == nil:
				results[n] = granted(&changes[n], a.Seq)
			case a.Error.ErrorCode == wrongRevision:
				refused = append(refused, n)
			case a.Error.ErrorCode != inFlight && a.Error.ErrorCode != tooMany:
				results[n].Err = d.failed(a.Error)
			}
		}
		if err == nil && round > 0 {
			err = pause(ctx, rand.N(time.Millisecond<<min(round, 6)))
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: other writes of the same keys kept being replicated", backend.ErrUnavailable)
}

// needs returns the items that a change requires.
func needs(c *lease.Change) []lease.Item {
	items := slices.Clone(c.Check)
	for _, p := range c.Put {
		items = append(items, p.Over)
	}
	return items
}

// compare refuses those of changes n whose items are no longer as they were read. It compares values
// that are remembered, because a restored bucket counts revisions anew, and finds markers.
func (d *driver) compare(ctx context.Context, s *store, changes []lease.Change, which []int, results []lease.Result, absent map[lease.Key]uint64) error {
	if which == nil {
		return nil
	}
	var keys []lease.Key
	for _, n := range which {
		for _, it := range needs(&changes[n]) {
			keys = append(keys, it.Key)
		}
	}
	_, v, err := d.view(ctx, keys)
	if err == nil && v.Epoch != s.epoch {
		err = lease.ErrEpoch
	}
	if err != nil {
		return err
	}
	for _, n := range which {
		for _, it := range needs(&changes[n]) {
			now := v.Items[0]
			v.Items = v.Items[1:]
			if now.Version != it.Version || it.Remembered && it.Value != nil && (now.Value == nil || lease.Encode(now.Value) != lease.Encode(it.Value)) {
				results[n].Outcome = backend.Refused
			} else if it.Version == "" {
				absent[it.Key] = now.Order
			}
		}
	}
	return nil
}

// batch returns the messages of a change: checks, then puts.
func (d *driver) batch(s *store, c *lease.Change, absent map[lease.Key]uint64) (batch []*nats.Msg) {
	scratch := d.subject(s.epoch + ".check")
	revision := func(it lease.Item) uint64 {
		if n, err := strconv.ParseUint(it.Version, 10, 64); err == nil {
			return n
		} else if n, known := absent[it.Key]; known {
			return n
		}
		return it.Order
	}
	if !slices.ContainsFunc(needs(c), func(it lease.Item) bool { return it.Version != "" }) {
		batch = append(batch, required(scratch, nil, d.subject("epoch."+s.epoch), s.revision))
	}
	for _, it := range c.Check {
		batch = append(batch, required(scratch, nil, d.item(s.epoch, it.Key), revision(it)))
	}
	for _, p := range c.Put {
		if p.Value == nil && p.Over.Kind == lease.Records {
			batch = append(batch, nats.NewMsg(d.item(s.epoch, lease.Key{Kind: "gone", Name: p.Over.Name})))
		}
	}
	for _, p := range c.Put {
		m := required(d.item(s.epoch, p.Over.Key), nil, "", revision(p.Over))
		if p.Value == nil {
			m.Header.Set(gone, "1")
			m.Header.Set("KV-Operation", "DEL")
		} else {
			m.Data = []byte(lease.Encode(p.Value))
			if p.Over.Version != "" {
				m.Header.Set(created, p.Over.Created)
			}
			m.Header.Set(sum, checksum(m.Subject, m.Header.Get(created), m.Data))
		}
		if p.Over.Kind == lease.Sessions {
			m.Header.Set("Nats-TTL", (max(c.Lasts, time.Minute)).Round(time.Second).String())
		}
		batch = append(batch, m)
	}
	return batch
}

// granted returns the result of a change whose last message has a revision. Puts come last.
func granted(c *lease.Change, last uint64) lease.Result {
	r := lease.Result{Outcome: backend.Granted}
	for i, p := range c.Put {
		it := lease.Item{Key: p.Over.Key, Order: last - uint64(len(c.Put)-1-i), Age: -1}
		if p.Value != nil {
			it.Version, it.Created = strconv.FormatUint(it.Order, 10), p.Over.Created
			if p.Over.Version == "" {
				it.Created = it.Version
			}
		}
		r.Items = append(r.Items, it)
	}
	return r
}

// Listen implements [lease.Listener].
func (d *driver) Listen(ctx context.Context, position uint64, known []lease.Item, on func([]lease.Item, uint64) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := d.nc.StatusChanged(nats.RECONNECTING)
	defer d.nc.RemoveStatusListener(lost)
	go func() {
		<-lost // it is closed when it is removed
		cancel(fmt.Errorf("%w: the connection has ended", backend.ErrUnavailable))
	}()
	s, v, err := d.view(ctx, nil)
	if err != nil || position == 0 || v.Position < position {
		return err
	}
	filters := []string{d.subject(s.epoch + "." + string(lease.Records) + ".*")}
	for _, it := range known {
		if it.Kind == lease.Sessions {
			filters = append(filters, d.item(s.epoch, it.Key))
		}
	}
	consumer, err := d.js.OrderedConsumer(ctx, "KV_"+d.bucket, jetstream.OrderedConsumerConfig{
		FilterSubjects: filters, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: position + 1})
	if err != nil {
		return d.failed(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return d.failed(err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return d.failed(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return d.failed(err)
		}
		kind, token, _ := strings.Cut(strings.TrimPrefix(m.Subject(), d.subject(s.epoch+".")), ".")
		at := meta.Sequence.Stream
		if !on([]lease.Item{read(lease.Key{Kind: lease.Kind(kind), Name: decode(token)}, m.Subject(), &message{at, m.Headers(), m.Data()}, 0)}, at) {
			return nil
		}
	}
}
