package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// A driver is access to the keys of one prefix in one database. It implements [lease.Driver] and
// [lease.Listener]. An item is a field of a hash with JSON, and its version a field of another one.
type driver struct {
	conns     client.Pool[goredis.UniversalClient]       // clients of one connection, or the program's, many times
	newClient func(listens bool) goredis.UniversalClient // or the program's
	lend      func() *goredis.Conn                       // a connection of the program's client; nil: it lends none
	poolSize  int                                        // of the program's client, of one server; 0: of none
	follows   bool                                       // the program's client knows all servers of its cluster
	tls       bool                                       // its own client uses it
	db        int                                        // that each run of the script selects
	prefix    string
	maxTTL    time.Duration
	replicas  int // that must have a change

	location, user             string
	password, sentinelPassword client.Secret

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu       sync.Mutex
	epoch    string        // that of the last answer; "": none
	number   uint64        // the greatest number of a change in it
	listener *listener     // nil: none
	quiet    time.Time     // there is no listener before
	heard    []notice      // the last ones
	changed  chan struct{} // closed when there is another one
}

var _ lease.Listener = (*driver)(nil)

const (
	minTTL    = time.Second
	maxItems  = 64   // puts and checks in one change
	maxParts  = 500  // items of changes, or items to read, in one run of the script: the server does nothing else meanwhile
	maxVerify = 2000 // items to verify in one run
)

//go:embed script.lua
var scriptText string

var script = goredis.NewScript(scriptText)

// keys returns the keys of the script. They have one hash tag, so that all are in one place of a cluster.
func (d *driver) keys() (keys []string) {
	for _, name := range []string{"origin", "version", string(lease.Records), string(lease.Sessions), string(lease.Metas)} {
		keys = append(keys, "{"+d.prefix+"}:"+name)
	}
	return keys
}

func (d *driver) channel() string { return "{" + d.prefix + "}:changed" }

// Limits implements [lease.Driver]. A restart or failover may lose what was acknowledged.
func (d *driver) Limits() lease.Limits {
	return lease.Limits{Name: Name, MinTTL: minTTL, MaxTTL: d.maxTTL, Loses: true, Batch: maxItems, Checks: maxItems - 1, MaxValue: lease.MaxValue}
}

func (d *driver) Close() error {
	d.cancel()
	d.mu.Lock()
	d.dropListener()
	d.mu.Unlock()
	d.conns.End()
	return nil
}

// do runs an operation of the script, and returns the epoch, the number of records and what else is answered.
// nonce is a text that never comes twice, epoch that of the caller; "": any.
func (d *driver) do(ctx context.Context, operation, nonce, epoch string, args ...any) (now string, records int64, rest []any, err error) {
	d.mu.Lock()
	newest := d.number
	if epoch == "" {
		epoch = d.epoch
	} else if epoch != d.epoch {
		newest = 0
	}
	d.mu.Unlock()
	young := int64(d.maxTTL.Seconds()) + 3 // whole ones, and the server's clock may be slower
	lost := lease.Encode(&lease.Meta{Layout: lease.Layout, Deleted: 1, MaxTTL: lease.Span(d.maxTTL), Epoch: "lost"})
	write := operation == "write"
	if write && d.replicas > 0 {
		operation = "replicate"
	}
	args = append([]any{operation, nonce, d.maxTTL.String(), young, epoch, newest, lost, d.channel(), d.db}, args...)
	answer, err := d.run(ctx, write, args)
	if err != nil {
		return "", 0, nil, d.fail(err)
	}
	now = text(answer[0])
	records, _ = answer[3].(int64)
	number, _ := strconv.ParseUint(text(answer[1]), 10, 64)
	if maxTTL := text(answer[2]); maxTTL != d.maxTTL.String() {
		return "", 0, nil, fmt.Errorf("%w: max_ttl is %v, and that of the keys {%s} is %.20s: all processes need the same; docs/redis.md says how to change it", backend.ErrDenied, d.maxTTL, d.prefix, maxTTL)
	}
	d.note(now, number)
	return now, records, answer[5:], nil
}

// unanswered reports whether the server has never answered.
func (d *driver) unanswered() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.epoch == ""
}

// note notes an answer. Another epoch may be that of another server, where somebody must listen anew.
func (d *driver) note(epoch string, number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epoch == epoch {
		d.number = max(d.number, number)
		return
	}
	if d.epoch != "" {
		d.dropListener()
		d.conns.Moved() // the other connections may lead to the server of before
	}
	d.epoch, d.number = epoch, number
}

func newNonce() string { return string(backend.NewNonce()[:16]) }

// currentPosition returns that of the last notice.
func (d *driver) currentPosition() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heard[len(d.heard)-1].position
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// Read implements [lease.Driver]. If items are read in several parts, the meta item and the number of records
// come last.
func (d *driver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	v := lease.View{Position: d.currentPosition()}
	for first := true; first || len(v.Items) < len(keys); first = false {
		if err := d.readPart(ctx, &v, keys[len(v.Items):min(len(keys), len(v.Items)+maxParts)]); err != nil {
			return lease.View{}, err
		}
	}
	meta := slices.IndexFunc(keys, func(k lease.Key) bool { return k.Kind == lease.Metas })
	if meta < 0 || len(keys) <= maxParts {
		return v, nil
	}
	err := d.readPart(ctx, &v, keys[meta:meta+1])
	if err == nil {
		v.Items, v.Items[meta] = v.Items[:len(keys)], v.Items[len(keys)]
	}
	return v, err
}

// readPart reads items and appends them to a view.
func (d *driver) readPart(ctx context.Context, v *lease.View, keys []lease.Key) error {
	args := make([]any, 0, 2*len(keys))
	for _, k := range keys {
		args = append(args, string(k.Kind), k.Name)
	}
	epoch, records, rest, err := d.do(ctx, "read", newNonce(), "", args...)
	switch {
	case err != nil:
		return err
	case len(rest) != len(args):
		return fmt.Errorf("%w: %d items were asked for, and the answer has %d", backend.ErrUnavailable, len(keys), len(rest)/2)
	case v.Epoch != "" && v.Epoch != epoch:
		return lease.ErrEpoch
	}
	v.Items = append(v.Items, d.itemsOf(keys, rest)...)
	v.Epoch, v.Records = epoch, records
	return nil
}

// itemsOf returns items as the script tells of them: version and text of each. After somebody has set the
// store's number back, older items have greater ones, which tell no order.
func (d *driver) itemsOf(keys []lease.Key, told []any) (items []lease.Item) {
	d.mu.Lock()
	number := d.number
	d.mu.Unlock()
	for i, k := range keys {
		it := item(k, text(told[2*i]), text(told[2*i+1]))
		if it.Order > number {
			it.Order = 0
		}
		items = append(items, it)
	}
	return items
}

// item returns an item as the script tells of it. A version has "!" if somebody else wrote the text.
func item(k lease.Key, version, value string) lease.Item {
	it := lease.Item{Key: k, Version: version, Age: -1}
	if version != "" {
		it.Order, it.Created = parse(version)
		it.Value, it.Edited = lease.Decode(k.Kind, []byte(value)), strings.Contains(version, "!")
	}
	return it
}

// parse returns the number of the change in a version, 0 if it is unknown, and when the item was made.
func parse(version string) (order uint64, made string) {
	parts := strings.Split(version, "/")
	if len(parts) != 3 {
		return 0, ""
	}
	number, _, _ := strings.Cut(parts[0], ".")
	order, err := strconv.ParseUint(number, 10, 53) // the script counts no further
	if err != nil {
		order = 0
	}
	return order, parts[1]
}

// sum is that of a text in its version.
func sum(text string) string {
	s := sha1.Sum([]byte(text))
	return hex.EncodeToString(s[:8])
}

// List implements [lease.Driver]. It reads all names and sorts them: the server's script cannot do so byte by
// byte.
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (v lease.View, err error) {
	v.Position = d.currentPosition()
	epoch, _, rest, err := d.do(ctx, "names", newNonce(), "", string(kind))
	if err != nil {
		return v, err
	}
	v.Epoch = epoch
	var keys []lease.Key
	for _, name := range rest {
		if s := text(name); s >= from {
			keys = append(keys, lease.Key{Kind: kind, Name: s})
		}
	}
	slices.SortFunc(keys, func(a, b lease.Key) int { return strings.Compare(a.Name, b.Name) })
	for len(keys) > 0 && len(v.Items) < limit { // again for those that were deleted meanwhile
		part := keys[:min(len(keys), limit-len(v.Items), maxParts)]
		keys = keys[len(part):]
		if err := d.readPart(ctx, &v, part); err != nil {
			return lease.View{}, err
		}
		v.Items = slices.DeleteFunc(v.Items, func(it lease.Item) bool { return it.Version == "" })
	}
	return v, nil
}
