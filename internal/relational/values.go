package relational

import (
	"cmp"
	"hash/maphash"
	"time"

	"github.com/go-election/go-election/backend/lease"
)

// A decode returns the value of an item with this text; nil if it is invalid.
type decode func(k lease.Key, text []byte) lease.Value

func decodeEach(k lease.Key, text []byte) lease.Value { return lease.Decode(k.Kind, text) }

// values are what a large reading has decoded. A follower of thousands reads all of them once for each
// renewal, and hardly any has changed: to decode them again was half of what it cost.
type values struct {
	seed maphash.Seed
	of   map[lease.Key]value
	at   time.Time // when they were kept
}

type value struct {
	lease.Value
	hash uint64 // of its text
}

const largeReading = 256 // keys, from which values are kept

// decoder returns the decode of a reading of n keys, and what keeps its values for the next one.
func (d *Driver) decoder(n int) (decode decode, keep func()) {
	if n < largeReading {
		return decodeEach, func() {}
	}
	last := cmp.Or(d.values.Load(), &values{seed: maphash.MakeSeed()})
	now := &values{seed: last.seed, of: make(map[lease.Key]value, n)}

	decode = func(k lease.Key, text []byte) lease.Value {
		v, hash := last.of[k], maphash.Bytes(now.seed, text)
		if v.Value == nil || v.hash != hash {
			v = value{decodeEach(k, text), hash}
		}
		now.of[k] = v
		return v.Value
	}
	return decode, func() {
		now.at = time.Now()
		d.values.Store(now)
	}
}

// dropOld drops values of long ago: a process that leads what it has read reads it no more.
func (d *Driver) dropOld() {
	if v := d.values.Load(); v != nil && time.Since(v.at) > d.MaxTTL {
		d.values.Store(nil)
	}
}
