package mysqltable

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Layout is the shape of a table by which other programs elect. It has the name of the
// table's time column. docs/mysqltable.md has the other columns, and when a row has expired.
type Layout string

const (
	LastActiveTime Layout = "last_active_time"
	LastSeenActive Layout = "last_seen_active"
	UpdateTime     Layout = "update_time"
)

// A shape describes a layout.
type shape struct {
	key, holder, time string // columns
	width             int    // of key and holder, in characters
	expired           string // the other programs' predicate; %d is the threshold in seconds
	strict            bool   // the predicate lets a row live one second longer than the threshold
	threshold         time.Duration
}

var shapes = map[Layout]shape{
	LastActiveTime: {"service_id", "leader_id", "last_active_time", 128,
		"last_active_time <= now() - interval %d second", false, 0},
	LastSeenActive: {"name", "node", "last_seen_active", 128,
		"last_seen_active < date_sub(now(), interval %d second)", true, 5 * time.Second},
	UpdateTime: {"service_id", "leader_id", "update_time", 50,
		"timestampdiff(second, update_time, now()) > %d", true, 30 * time.Second},
}

// Two times have a meaning for this module. Both are within a TIMESTAMP's range in every time
// zone. To the other programs the first has long expired, and the second never expires.
const (
	vacated = "1970-01-02 00:00:00" // released
	sealed  = "2038-01-19 03:14:07" // the election has moved to another store
)

// holderOf returns the holder that the row names while a candidate of this module leads in this term: its id,
// as far as it is printable ASCII and fits, and a mark that no other grant shares, so that a late statement
// does not affect another grant.
func (s shape) holderOf(id string, term uint64) string {
	id = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, id)
	return id[:min(len(id), s.width-len(mark(term)))] + mark(term)
}

// mark returns the end of each holder of a term.
func mark(term uint64) string { return fmt.Sprintf("#%016x", term) }

// termOf returns the term of a holder of this module, or 0.
func termOf(holder string) uint64 {
	term, _ := strconv.ParseUint(holder[max(0, len(holder)-16):], 16, 64)
	if !strings.HasSuffix(holder, mark(term)) {
		return 0
	}
	return term
}

// plainText has what every collation tells apart, but for case.
var plainText = regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`)
