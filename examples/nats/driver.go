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

// subject returns the subject of an item.
func (s *store) subject(k lease.Key) string {
	return s.prefix + string(k.Kind) + ".n" + base64.RawURLEncoding.EncodeToString([]byte(k.Name))
}

// checksum returns what header sum of a message says.
func checksum(subject, created string, data []byte) string {
	return fmt.Sprintf("%.16x", sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", subject, created, data)))
}

// item returns an item as its message has it; nil: there is none.
func (s *store) item(k lease.Key, m *message, backTo uint64) lease.Item {
	it := lease.Item{Key: k}
	if m == nil {
		return it
	}
	it.Order = m.seq // an item that was deleted is made again over this one
	if m.header.Get(gone) != "" {
		return it
	}
	it.Version, it.Old, it.Age = strconv.FormatUint(m.seq, 10), m.seq <= backTo, -1
	it.Value, it.Created = lease.Decode(k.Kind, m.data), m.header.Get(created)
	it.Edited = m.header.Get(sum) != checksum(s.subject(k), it.Created, m.data)
	if it.Created == "" {
		it.Created = it.Version
	}
	return it
}

// Read implements [lease.Driver].
func (d *driver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	s, v, err := d.read(ctx, keys)
	if err == nil && slices.ContainsFunc(keys, func(k lease.Key) bool { return k.Kind == lease.Metas }) {
		// After the items: a record that is deleted meanwhile must not be counted.
		var all []lease.Item
		all, err = d.list(ctx, s, lease.Records, "", v.Position)
		v.Records = int64(len(all))
	}
	return v, err
}

func (d *driver) read(ctx context.Context, keys []lease.Key) (s *store, v lease.View, err error) {
	if s, err = d.lookUp(ctx); err != nil {
		return s, v, err
	}
	var subjects []string
	for _, k := range keys {
		subjects = append(subjects, s.subject(k))
	}
	got, upTo, err := d.get(ctx, s, subjects)
	if err != nil {
		return s, v, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v = lease.View{Epoch: s.epoch, WentBack: d.wentBack, Position: upTo}
	for i, k := range keys {
		v.Items = append(v.Items, s.item(k, got[subjects[i]], d.backTo))
	}
	return s, v, nil
}

// list returns the items of a kind with names not less than from, as they are at a revision or later.
func (d *driver) list(ctx context.Context, s *store, kind lease.Kind, from string, atLeast uint64) ([]lease.Item, error) {
	prefix := s.prefix + string(kind) + ".n"
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(s.prefix+string(kind)+".*"))
	if err == nil && info.State.LastSeq < atLeast {
		err = fmt.Errorf("%w: another server leads the stream meanwhile", backend.ErrUnavailable)
	}
	if err != nil {
		return nil, d.failed(err)
	}
	var keys []lease.Key
	for subject := range info.State.Subjects {
		name, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(subject, prefix))
		if string(name) >= from {
			keys = append(keys, lease.Key{Kind: kind, Name: string(name)})
		}
	}
	slices.SortFunc(keys, func(a, b lease.Key) int { return strings.Compare(a.Name, b.Name) })
	_, v, err := d.read(ctx, keys)
	return slices.DeleteFunc(v.Items, func(it lease.Item) bool { return it.Version == "" }), err
}

// List implements [lease.Driver].
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	s, v, err := d.read(ctx, nil)
	if err != nil {
		return v, err
	}
	v.Items, err = d.list(ctx, s, kind, from, v.Position)
	v.Items = v.Items[:min(limit, len(v.Items))]
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
	now, err := d.present(ctx, s, verify)
	for n, it := range verify {
		if err == nil && now[it.Key].Version != it.Version {
			w.Stale = append(w.Stale, n)
		}
	}
	return w, err
}

// present reads items as they are now in the same epoch.
func (d *driver) present(ctx context.Context, s *store, items []lease.Item) (map[lease.Key]lease.Item, error) {
	var keys []lease.Key
	for _, it := range items {
		keys = append(keys, it.Key)
	}
	_, v, err := d.read(ctx, keys)
	if err == nil && v.Epoch != s.epoch {
		err = lease.ErrEpoch
	}
	now := map[lease.Key]lease.Item{}
	for _, it := range v.Items {
		now[it.Key] = it
	}
	return now, err
}

// Error codes of the server: a revision that is required is not the present one; another write or
// check of the same key is not replicated yet; batches are open. All say that nothing was written.
const (
	wrongRevision = 10071
	inFlight      = 10164
	tooMany       = 10210
)

// apply sends changes together, and sets their results. If a batch is refused, it reads which of its
// changes do not hold, and sends the others again. Changes of the same item wait for each other.
func (d *driver) apply(ctx context.Context, s *store, changes []lease.Change, results []lease.Result) error {
	now := map[lease.Key]lease.Item{} // as items were read by this call
	unsure := make([]bool, len(changes))
	for n := range changes {
		unsure[n] = slices.ContainsFunc(needs(&changes[n]), func(it lease.Item) bool { return it.Remembered && it.Value != nil })
	}
	for round := range 100 {
		var asked []lease.Item
		for n := range changes {
			if unsure[n] && results[n].Outcome == backend.Unknown {
				asked = append(asked, needs(&changes[n])...)
			}
		}
		if asked != nil {
			var err error
			if now, err = d.present(ctx, s, asked); err != nil {
				return err
			}
		}
		var parts [][]int // changes of each batch
		var batches [][]*nats.Msg
		put, size := map[lease.Key]bool{}, 0
		for n := range changes {
			c := &changes[n]
			if results[n].Outcome != backend.Unknown || results[n].Err != nil {
				continue
			}
			if unsure[n] && !slices.ContainsFunc(needs(c), func(it lease.Item) bool { return !same(it, now[it.Key]) }) {
				unsure[n] = false
			} else if unsure[n] {
				results[n].Outcome = backend.Refused
				continue
			}
			if slices.ContainsFunc(needs(c), func(it lease.Item) bool { return put[it.Key] }) {
				continue // in the next round
			}
			if size += len(needs(c)); parts == nil || size > 200 {
				parts, size = append(parts, nil), len(needs(c))
			}
			for _, p := range c.Put {
				put[p.Over.Key] = true
			}
			parts[len(parts)-1] = append(parts[len(parts)-1], n)
		}
		if parts == nil {
			return nil
		}
		for _, part := range parts {
			batches = append(batches, s.batch(changes, part, now))
		}
		acks, err := d.ask(ctx, batches...)
		for i, a := range acks {
			switch {
			case a == nil:
			case a.Error == nil:
				granted(changes, parts[i], a.Seq, results)
			case a.Error.ErrorCode != inFlight && a.Error.ErrorCode != tooMany:
				for _, n := range parts[i] {
					if unsure[n] = a.Error.ErrorCode == wrongRevision; !unsure[n] {
						results[n].Err = d.failed(a.Error)
					}
				}
			}
		}
		if err == nil && round > 0 {
			err = d.failed(pause(ctx, rand.N(time.Millisecond<<min(round, 5))))
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

// same reports whether an item is as it was read. A bucket that was restored counts revisions anew.
func same(it, now lease.Item) bool {
	return now.Version == it.Version && (!it.Remembered || it.Value == nil || now.Value != nil && lease.Encode(now.Value) == lease.Encode(it.Value))
}

// batch returns the messages of changes: first all checks, then all puts.
func (s *store) batch(changes []lease.Change, part []int, now map[lease.Key]lease.Item) (batch []*nats.Msg) {
	revision := func(it lease.Item) uint64 {
		if n, err := strconv.ParseUint(it.Version, 10, 64); err == nil {
			return n
		} else if read, ok := now[it.Key]; ok {
			return read.Order
		}
		return it.Order
	}
	for _, n := range part {
		for _, it := range changes[n].Check {
			batch = append(batch, required(s.prefix+"check", s.subject(it.Key), revision(it)))
		}
	}
	for _, n := range part {
		for _, p := range changes[n].Put {
			m := required(s.subject(p.Over.Key), "", revision(p.Over))
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
				m.Header.Set("Nats-TTL", max(changes[n].Lasts, time.Minute).Round(time.Second).String())
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
				it.Version, it.Created = strconv.FormatUint(last, 10), p.Over.Created
				if p.Over.Version == "" {
					it.Created = it.Version
				}
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := d.nc.StatusChanged(nats.RECONNECTING)
	defer d.nc.RemoveStatusListener(lost)
	go func() {
		<-lost // it is closed when it is removed
		cancel()
	}()
	consumer, err := d.js.OrderedConsumer(ctx, d.stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{s.prefix + string(lease.Records) + ".*"}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: position + 1})
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
		if at, err := m.Metadata(); err != nil || !on(nil, at.Sequence.Stream) {
			return d.failed(err)
		}
	}
}
