package register

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

const layout = 1 // the version of what this package writes

// A document is the value of a register. It is not modified after it was read or written.
type document struct {
	Layout int              `json:"layout"`
	Epoch  string           `json:"epoch"` // random text: the identity of the document
	Count  uint64           `json:"count"` // of swaps since it was made
	Tag    string           `json:"tag"`   // random text of the swap that wrote it
	Items  map[string]entry `json:"items"` // by kind and name, such as "record/jobs"
}

// An entry is an item in a document.
type entry struct {
	Count uint64          `json:"count"` // of the document when the item was written last
	Tag   string          `json:"tag"`   // of that swap: the item's version
	Made  string          `json:"made"`  // the tag of the swap that made the item
	Sum   string          `json:"sum"`   // shows that this package wrote it, under this name
	Value json.RawMessage `json:"value"`
}

func newTag() string { return rand.Text()[:16] } // 80 random bits

// next returns a copy for the next swap.
func (d *document) next() *document {
	return &document{layout, d.Epoch, d.Count + 1, newTag(), maps.Clone(d.Items)}
}

// decode returns the document in a value, which may come from anybody.
func decode(value []byte) (d *document, err error) {
	if err = json.Unmarshal(value, &d); err == nil && d != nil && d.Layout > layout {
		return nil, fmt.Errorf("%w: the value has layout %d, this program %d: update it",
			backend.ErrDenied, d.Layout, layout)
	}
	if err != nil || d == nil || d.Layout != layout || d.Items == nil || d.Count > 1<<62 ||
		d.Tag == "" || d.Epoch == "" || clean.Text(d.Epoch, 64, false) != d.Epoch {
		return nil, fmt.Errorf("%w: the value is none of this package: restore it, or move it away once"+
			" nobody leads any more", backend.ErrDenied)
	}
	return d, nil
}

func keyOf(k lease.Key) string { return string(k.Kind) + "/" + k.Name }

// keys returns those of the items of a kind.
func (d *document) keys(kind lease.Kind) (keys []lease.Key) {
	for key := range d.Items {
		if name, ok := strings.CutPrefix(key, string(kind)+"/"); ok {
			keys = append(keys, lease.Key{Kind: kind, Name: name})
		}
	}
	return keys
}

// sum returns what entry.Sum must be.
func (e *entry) sum(key string) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %q %s", key, e.Count, e.Tag, e.Made, e.Value))
	return base64.RawURLEncoding.EncodeToString(h[:9])
}

// item returns an item as the document has it, without its value.
func (d *document) item(k lease.Key) lease.Item {
	e, ok := d.Items[keyOf(k)]
	if !ok {
		return lease.Item{Key: k, Age: -1, Order: d.Count}
	}
	return lease.Item{Key: k, Version: "v" + e.Tag, Created: e.Made, Order: e.Count, Age: -1}
}

// has reports whether an item is as it was read.
func (d *document) has(it lease.Item) bool { return d.item(it.Key).Version == it.Version }

// apply makes a change if what it requires holds.
func (d *document) apply(c *lease.Change) lease.Result {
	changed := func(it lease.Item) bool { return !d.has(it) }
	over := func(p lease.Put) bool { return changed(p.Over) }
	if slices.ContainsFunc(c.Check, changed) || slices.ContainsFunc(c.Put, over) {
		return lease.Result{Outcome: backend.Refused}
	}
	r := lease.Result{Outcome: backend.Granted}
	for _, p := range c.Put {
		key := keyOf(p.Over.Key)
		e := entry{Count: d.Count, Tag: d.Tag, Made: cmp.Or(d.Items[key].Made, d.Tag)}
		if delete(d.Items, key); p.Value != nil {
			e.Value = json.RawMessage(lease.Encode(p.Value))
			e.Sum = e.sum(key)
			d.Items[key] = e
		}
		r.Items = append(r.Items, d.item(p.Over.Key))
	}
	return r
}

// contains reports whether the swap with this tag was made: the document is that one, or a later one in which
// an item is as it was written then.
func (d *document) contains(tag string) bool {
	written := func(e entry) bool { return e.Tag == tag }
	return d.Tag == tag || slices.ContainsFunc(slices.Collect(maps.Values(d.Items)), written)
}

// follows reports whether the document can be the same as was, or a later one.
func (d *document) follows(was *document) bool {
	for key, e := range d.Items {
		if e.Count <= was.Count && was.Items[key].Tag != e.Tag {
			return false
		}
	}
	return d.Count > was.Count || d.Count == was.Count && d.Tag == was.Tag
}
