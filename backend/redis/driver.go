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
)

// A driver is access to the keys of one prefix. It implements [lease.Driver] and [lease.Listener]. An
// item is a field of a hash with JSON, and its version a field of another one.
type driver struct {
	client    goredis.UniversalClient
	ownClient bool
	prefix    string
	maxTTL    time.Duration
	replicas  int // that must have a change

	location, user string
	secrets        []string

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu       sync.Mutex
	epoch    string        // that of the last answer; "": none
	number   uint64        // the greatest number of a change in it
	listener *listener     // nil: none
	position uint64        // how often something may have changed, plus one
	changed  chan struct{} // closed when position grows
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
	return lease.Limits{Name: Name, MinTTL: minTTL, MaxTTL: d.maxTTL, Loses: true, Batch: maxItems, MaxValue: lease.MaxValue}
}

// Now implements [lease.Driver].
func (d *driver) Now() time.Time { return time.Now() }

// Close implements [lease.Driver].
func (d *driver) Close() error {
	d.cancel()
	d.mu.Lock()
	d.dropListener()
	d.mu.Unlock()
	if d.ownClient {
		go d.client.Close() // it waits for calls that still run
	}
	return nil
}

// A head is what each answer of the script begins with.
type head struct {
	epoch   string
	records int64
}

// do runs an operation of the script. nonce is a text that never comes twice, epoch that of the caller; "": any.
func (d *driver) do(ctx context.Context, operation, nonce, epoch string, args ...any) (h head, rest []any, err error) {
	d.mu.Lock()
	newest := d.number
	if epoch == "" {
		epoch = d.epoch
	} else if epoch != d.epoch {
		newest = 0
	}
	d.mu.Unlock()
	young := int64(d.maxTTL.Seconds()) + 3 // the server's seconds are whole ones
	lost := lease.Encode(&lease.Meta{Layout: lease.Layout, Deleted: 1, MaxTTL: lease.Span(d.maxTTL), Epoch: "lost"})
	args = append([]any{operation, nonce, d.maxTTL.String(), young, epoch, newest, lost, d.channel()}, args...)
	answer, err := d.run(ctx, operation == "write", args)
	if err != nil {
		return h, nil, d.fail(err)
	}
	if len(answer) < 4 {
		return h, nil, fmt.Errorf("%w: the script has answered with %d values", backend.ErrUnavailable, len(answer))
	}
	h.epoch, h.records = text(answer[0]), answer[3].(int64)
	number, _ := strconv.ParseUint(text(answer[1]), 10, 64)
	if maxTTL := text(answer[2]); maxTTL != d.maxTTL.String() {
		return h, nil, fmt.Errorf("%w: max_ttl is %v, and that of the keys {%s} is %.20s: all processes need the same; docs/redis.md says how to change it", backend.ErrDenied, d.maxTTL, d.prefix, maxTTL)
	}
	d.note(h.epoch, number)
	return h, answer[4:], nil
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
	}
	d.epoch, d.number = epoch, number
}

func newNonce() string { return string(backend.NewNonce()[:16]) }

// now returns the position.
func (d *driver) now() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.position
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// Read implements [lease.Driver]. The meta item comes last, with the number of records.
func (d *driver) Read(ctx context.Context, keys []lease.Key) (v lease.View, err error) {
	v.Position = d.now()
	order := slices.SortedStableFunc(slices.Values(indexes(keys)), func(i, j int) int { return lastMeta(keys[i]) - lastMeta(keys[j]) })
	v.Items = make([]lease.Item, len(keys))
	for first := true; first || len(order) > 0; first = false {
		part := order[:min(len(order), maxParts)]
		order = order[len(part):]
		args := make([]any, 0, 2*len(part))
		for _, i := range part {
			args = append(args, string(keys[i].Kind), keys[i].Name)
		}
		h, rest, err := d.do(ctx, "read", newNonce(), "", args...)
		if err == nil && len(rest) != len(args) {
			err = fmt.Errorf("%w: %d items were asked for, and the answer has %d", backend.ErrUnavailable, len(part), len(rest)/2)
		}
		if err == nil && !first && h.epoch != v.Epoch {
			err = lease.ErrEpoch
		}
		if err != nil {
			return lease.View{}, err
		}
		for n, i := range part {
			v.Items[i] = item(keys[i], text(rest[2*n]), text(rest[2*n+1]))
		}
		v.Epoch, v.Records = h.epoch, h.records
	}
	return v, nil
}

func indexes(keys []lease.Key) []int {
	all := make([]int, len(keys))
	for i := range all {
		all[i] = i
	}
	return all
}

func lastMeta(k lease.Key) int {
	if k.Kind == lease.Metas {
		return 1
	}
	return 0
}

// item returns an item as the script tells of it. A version has "!" if somebody else wrote the text.
func item(k lease.Key, version, value string) lease.Item {
	it := lease.Item{Key: k, Version: version, Age: -1}
	if version != "" {
		it.Created, it.Value, it.Edited = created(version), lease.Decode(k.Kind, []byte(value)), strings.Contains(version, "!")
	}
	return it
}

// created returns when an item was made, by its version.
func created(version string) string {
	parts := strings.Split(version, "/")
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}

// sum is that of a text in its version.
func sum(text string) string {
	s := sha1.Sum([]byte(text))
	return hex.EncodeToString(s[:8])
}

// List implements [lease.Driver]. It reads all names and sorts them: the server's script cannot do so byte by
// byte.
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (v lease.View, err error) {
	v.Position = d.now()
	h, rest, err := d.do(ctx, "names", newNonce(), "", string(kind))
	if err != nil {
		return v, err
	}
	v.Epoch = h.epoch
	var names []string
	for _, name := range rest {
		if s := text(name); s >= from {
			names = append(names, s)
		}
	}
	slices.Sort(names)
	for len(names) > 0 && len(v.Items) < limit {
		var keys []lease.Key
		for _, name := range names[:min(len(names), limit-len(v.Items))] {
			keys = append(keys, lease.Key{Kind: kind, Name: name})
		}
		names = names[len(keys):]
		got, err := d.Read(ctx, keys)
		if err == nil && got.Epoch != v.Epoch {
			err = lease.ErrEpoch
		}
		if err != nil {
			return lease.View{}, err
		}
		v.Items = append(v.Items, slices.DeleteFunc(got.Items, func(it lease.Item) bool { return it.Version == "" })...)
	}
	return v, nil
}
