package lease

import (
	"strconv"
	"strings"
)

// Numbers are what a store that numbers all its writes, and counts those of each key, says of an item.
// The zero value is that of an item that is not there.
type Numbers struct {
	At     int64 // the number of the last write, which no other write has
	Writes int64 // how often the item was written since it was made
	Made   int64 // the number of the write that made it
}

// Item returns an item with these numbers, without a value.
func (n Numbers) Item(k Key) Item {
	it := Item{Key: k, Age: -1}
	if n == (Numbers{}) {
		return it
	}
	it.Version = strconv.FormatInt(n.At, 16) + "." + strconv.FormatInt(n.Writes, 10)
	it.Created = strconv.FormatInt(n.Made, 16)
	it.Order = uint64(n.At)
	return it
}

// Numbers returns those of an item that has them.
func (it *Item) Numbers() (n Numbers) {
	if it.Version == "" {
		return n
	}
	at, writes, _ := strings.Cut(it.Version, ".")
	var err error
	if n.At, err = strconv.ParseInt(at, 16, 64); err == nil {
		n.Writes, err = strconv.ParseInt(writes, 10, 32)
	}
	if err != nil {
		return Numbers{At: -1, Writes: -2} // no item has these, so a change that requires them is refused
	}
	n.Made, _ = strconv.ParseInt(it.Created, 16, 64)
	return n
}
