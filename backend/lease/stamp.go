package lease

import (
	"strconv"
	"strings"
)

// A Stamp is what a store that numbers all its writes, and counts those of each key, says of an item.
// The zero value is that of an item that is not there.
type Stamp struct {
	At     int64 // the number of the last write, which no other write has
	Writes int64 // how often the item was written since it was made
	Made   int64 // the number of the write that made it
}

// Item returns an item with the stamp, without a value.
func (s Stamp) Item(k Key) Item {
	it := Item{Key: k, Age: -1}
	if s == (Stamp{}) {
		return it
	}
	it.Version, it.Created, it.Order = strconv.FormatInt(s.At, 16)+"."+strconv.FormatInt(s.Writes, 10), strconv.FormatInt(s.Made, 16), uint64(s.At)
	return it
}

// Stamp returns the stamp of an item that has one. If it has something else, At and Writes are those
// of no item.
func (it *Item) Stamp() (s Stamp) {
	if it.Version == "" {
		return s
	}
	at, writes, _ := strings.Cut(it.Version, ".")
	var err error
	if s.At, err = strconv.ParseInt(at, 16, 64); err == nil {
		s.Writes, err = strconv.ParseInt(writes, 10, 32)
	}
	if err != nil {
		return Stamp{At: -1, Writes: -2}
	}
	s.Made, _ = strconv.ParseInt(it.Created, 16, 64)
	return s
}
