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
	// Clients of one connection, or that of the program, many times.
	conns     client.Pool[goredis.UniversalClient]
	newClient func(listens bool) goredis.UniversalClient

	lend     func() *goredis.Conn // a connection of the program's client; nil: it lends none
	poolSize int                  // of the program's client, of one server; 0: of none
	follows  bool                 // the program's client knows all servers of its cluster
	tls      bool                 // its own client uses it
	db       int                  // that each run of the script selects
	prefix   string
	maxTTL   time.Duration
	replicas int // that must have a change

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
	minTTL   = time.Second
	maxItems = 64 // puts and checks in one change

	// While the script runs, the server does nothing else.
	maxParts  = 500  // items of changes, or items to read, in one run
	maxVerify = 2000 // items to verify in one run
)

//go:embed script.lua
var scriptText string

var script = goredis.NewScript(scriptText)

// keys returns the keys of the script. They have one hash tag, so that all are in one place of a cluster.
func (d *driver) keys() (keys []string) {
	for _, name := range []lease.Kind{"origin", "version", lease.Records, lease.Sessions, lease.Metas} {
		keys = append(keys, "{"+d.prefix+"}:"+string(name))
	}
	return keys
}

func (d *driver) channel() string { return "{" + d.prefix + "}:changed" }

// Limits implements [lease.Driver]. A restart or failover may lose what was acknowledged.
func (d *driver) Limits() lease.Limits {
	return lease.Limits{
		Name: Name, MinTTL: minTTL, MaxTTL: d.maxTTL, Loses: true,
		Batch: maxItems, Checks: maxItems - 1, MaxValue: lease.MaxValue,
	}
}

func (d *driver) Close() error {
	d.cancel()
	d.mu.Lock()
	d.dropListener()
	d.mu.Unlock()
	d.conns.End()
	return nil
}

// An answer is what a run of the script has answered.
type answer struct {
	epoch   string
	number  uint64 // the greatest of a change in it
	records int64
	rest    []any
}

// do runs an operation of the script. nonce never comes twice, and epoch is that of the caller; "": any.
func (d *driver) do(ctx context.Context, operation, nonce, epoch string, args ...any) (a answer, err error) {
	d.mu.Lock()
	newest := d.number
	if epoch == "" {
		epoch = d.epoch
	} else if epoch != d.epoch {
		newest = 0
	}
	d.mu.Unlock()
	young := int64(d.maxTTL.Seconds()) + 3 // whole ones, and the server's clock may be slower
	meta := &lease.Meta{Layout: lease.Layout, Deleted: 1, MaxTTL: lease.Span(d.maxTTL), Epoch: "lost"}
	lost := lease.Encode(meta)
	if operation == "write" && d.replicas > 0 {
		operation = "replicate"
	}
	maxTTL := d.maxTTL.String()
	all := []any{operation, nonce, maxTTL, young, epoch, newest, lost, d.channel(), d.db}
	told, err := d.run(ctx, append(all, args...))
	if err != nil {
		return a, d.fail(err)
	}
	if text(told[2]) != maxTTL {
		return a, fmt.Errorf("%w: max_ttl is %s, and that of the keys {%s} is %.20s: all processes need the"+
			" same; docs/redis.md says how to change it", backend.ErrDenied, maxTTL, d.prefix, text(told[2]))
	}
	a.epoch, a.rest = text(told[0]), told[5:]
	a.number, _ = strconv.ParseUint(text(told[1]), 10, 64)
	a.records, _ = told[3].(int64)

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epoch != a.epoch {
		if d.epoch != "" { // perhaps it is another server, where somebody must listen anew
			d.leave()
		}
		d.epoch, d.number = a.epoch, 0
	}
	d.number = max(d.number, a.number)
	return a, nil
}

// leave closes connections that may lead to a former server. The caller holds d.mu.
func (d *driver) leave() {
	d.dropListener()
	d.conns.Moved()
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

// Read implements [lease.Driver]. Of several parts the meta item and the number of records come last.
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
	a, err := d.do(ctx, "read", newNonce(), "", args...)
	switch {
	case err != nil:
		return err
	case len(a.rest) != len(args):
		return fmt.Errorf("%w: the answer has not %d items", backend.ErrUnavailable, len(keys))
	case v.Epoch != "" && v.Epoch != a.epoch:
		return lease.ErrEpoch
	}
	for i, k := range keys {
		it := item(k, text(a.rest[2*i]), text(a.rest[2*i+1]))
		if it.Order > a.number { // somebody has set the store's number back
			it.Order = 0
		}
		v.Items = append(v.Items, it)
	}
	v.Epoch, v.Records = a.epoch, a.records
	return nil
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
	if order, err := strconv.ParseUint(number, 10, 53); err == nil { // the script counts no further
		return order, parts[1]
	}
	return 0, parts[1]
}

// sum is that of a text in its version.
func sum(text string) string {
	s := sha1.Sum([]byte(text))
	return hex.EncodeToString(s[:8])
}

// List implements [lease.Driver]. It reads all names and sorts them, since the script cannot do so by bytes.
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, most int) (v lease.View, err error) {
	v.Position = d.currentPosition()
	a, err := d.do(ctx, "names", newNonce(), "", string(kind))
	if err != nil {
		return v, err
	}
	v.Epoch = a.epoch
	var keys []lease.Key
	for _, name := range a.rest {
		if s := text(name); s >= from {
			keys = append(keys, lease.Key{Kind: kind, Name: s})
		}
	}
	slices.SortFunc(keys, func(a, b lease.Key) int { return strings.Compare(a.Name, b.Name) })
	for len(keys) > 0 && len(v.Items) < most { // again for those that were deleted meanwhile
		part := keys[:min(len(keys), most-len(v.Items), maxParts)]
		keys = keys[len(part):]
		if err := d.readPart(ctx, &v, part); err != nil {
			return lease.View{}, err
		}
		v.Items = slices.DeleteFunc(v.Items, func(it lease.Item) bool { return it.Version == "" })
	}
	return v, nil
}
