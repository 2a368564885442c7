package mysqltable

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Layout is the shape of a table by which other programs elect. It has the name of the
// table's time column.
type Layout string

const (
	// LastActiveTime: service_id varchar(128), leader_id varchar(128),
	// last_active_time. Expired if last_active_time <= now() - interval N second.
	LastActiveTime Layout = "last_active_time"

	// LastSeenActive: id auto_increment, name varchar(128), node varchar(128),
	// last_seen_active. Expired if last_seen_active < now() - interval N second.
	LastSeenActive Layout = "last_seen_active"

	// UpdateTime: service_id varchar(50), leader_id varchar(50), update_time.
	// Expired if timestampdiff(second, update_time, now()) > N.
	UpdateTime Layout = "update_time"
)

// A shape describes a layout.
type shape struct {
	key, holder, time string // columns
	width             int    // of key and holder, in characters
	expired           string // the other programs' predicate; ? is the threshold in seconds
	strict            bool   // the predicate lets a row live one second longer than the threshold
	threshold         time.Duration
	period            time.Duration
}

var shapes = map[Layout]shape{
	LastActiveTime: {"service_id", "leader_id", "last_active_time", 128, "last_active_time <= now() - interval ? second", false, 0, 0},
	LastSeenActive: {"name", "node", "last_seen_active", 128, "last_seen_active < date_sub(now(), interval ? second)", true, 5 * time.Second, time.Second},
	UpdateTime:     {"service_id", "leader_id", "update_time", 50, "timestampdiff(second, update_time, now()) > ?", true, 30 * time.Second, 10 * time.Second},
}

// Two times have a meaning for this module. Both are within a TIMESTAMP's range in every time
// zone. To the other programs the first has long expired, and the second never expires.
const (
	vacated = "1970-01-02 00:00:00" // released
	sealed  = "2038-01-19 03:14:07" // the election has moved to another store
)

// A holder of this module ends with a grant mark, the term.
const grantMarkLength = 17

var grantMark = regexp.MustCompile(`#[0-9a-f]{16}$`)

// holderOf returns the holder that the row names while a candidate of this module leads in
// this term: its id, as far as it is printable and fits, and a mark that no other grant
// shares. So a statement that arrives late does not affect another grant.
func (s shape) holderOf(id string, term uint64) string {
	return s.plain(id) + mark(term)
}

// mark returns the end of each holder of a term.
func mark(term uint64) string { return fmt.Sprintf("#%016x", term) }

// termOf returns the term of a holder of this module, or 0.
func termOf(holder string) uint64 {
	if !grantMark.MatchString(holder) {
		return 0
	}
	term, _ := strconv.ParseUint(holder[len(holder)-grantMarkLength+1:], 16, 64)
	return term
}

// plain returns an id as the table shows it: printable ASCII without blanks.
func (s shape) plain(id string) string {
	id = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, id)
	return id[:min(len(id), s.width-grantMarkLength)]
}

// designates reports whether a holder that an operator wrote means the candidate with this id:
// the id itself, or the id as the table shows it, with or without a mark.
func (s shape) designates(holder, id string) bool {
	if id == "" {
		return false
	}
	return holder == id || holder == s.plain(id) || grantMark.ReplaceAllString(holder, "") == s.plain(id)
}

// checkKey returns an error if a text cannot be an election's key in the table. The table's
// collation ignores case, accents and trailing blanks. Keys that it could confuse are
// refused here, or when a row is read.
func (s shape) checkKey(key string) error {
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return fmt.Errorf("the key %.80q is not printable ASCII", key)
		}
	}
	switch {
	case key == "" || len(key) > s.width:
		return fmt.Errorf("the key %.60q has %d characters, 1 to %d are allowed", key, len(key), s.width)
	case strings.TrimSpace(key) != key:
		return fmt.Errorf("the key %.80q begins or ends with a blank", key)
	}
	return nil
}
