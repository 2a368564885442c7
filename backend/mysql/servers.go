package mysql

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// How each dialect names the server that answers. MariaDB's server_uid alone is
// made of port and MAC address and repeats after a new installation; versions
// before 10.6.19 and 10.11.9 lack it.
const (
	mysqlIdentity   = "CONCAT_WS(':', @@server_id, @@server_uuid)"
	mariadbIdentity = "LEFT(CONCAT_WS(':', @@server_id, @@port, @@hostname), 160)"
	uidIdentity     = "LEFT(CONCAT_WS(':', @@server_id, @@port, @@server_uid, @@hostname), 160)"
)

// dialect returns the identity expression for a server with these variables.
func dialect(vars map[string]string) string {
	switch {
	case vars["server_uuid"] != "":
		return mysqlIdentity
	case vars["server_uid"] != "":
		return uidIdentity
	}
	return mariadbIdentity
}

// servers remembers which servers have answered. One may replace another; two
// that take turns are two writers, and then no lease means anything.
type servers struct {
	sync.Mutex
	current, previous string
	replaced          map[string]time.Time // when each of the others was last replaced
	alternatingUntil  time.Time            // until when they count as taking turns

	tablesKnown    bool      // tables is set
	tables         string    // the nonce of the tables; "" if they were made by hand
	recreatedUntil time.Time // until when leases that are gone from the tables may be relied on

	volatileSeen bool      // a server that does not keep every commit was seen
	boot         string    // which start of which server answered last
	bootSeen     time.Time // since when
	restarts     int       // how many others answered before
}

// mostServers is how many other servers are remembered.
const maxServers = 64

// saw notes an answer. changed says that the server is another one than last
// time; err, that servers take turns.
func (s *servers) recordAnswer(id string, within time.Duration, now time.Time) (changed bool, err error) {
	s.Lock()
	defer s.Unlock()
	if id != s.current {
		changed = s.current != ""
		if at, ok := s.replaced[id]; ok && now.Sub(at) < within {
			s.alternatingUntil = now.Add(within)
		}
		s.recordReplaced(s.current, now)
		s.current, s.previous = id, s.current
	}
	if now.Before(s.alternatingUntil) {
		return changed, fmt.Errorf("%w: two servers take turns behind this address: %q and %q; all members must write to one server (a single primary, no round robin, no read-write splitting)",
			backend.ErrDenied, s.current, s.previous)
	}
	return changed, nil
}

// leave notes that a server was replaced. If there are too many, the one that
// was replaced first is forgotten.
func (s *servers) recordReplaced(id string, now time.Time) {
	if id == "" {
		return
	}
	if s.replaced == nil {
		s.replaced = make(map[string]time.Time)
	}
	s.replaced[id] = now
	if len(s.replaced) <= maxServers {
		return
	}
	first := id
	for other, at := range s.replaced {
		if at.Before(s.replaced[first]) {
			first = other
		}
	}
	delete(s.replaced, first)
}

// madeAgain notes the nonce of the tables. If they were dropped and made again,
// the leases that were in them are gone, but their holders may not know it yet.
func (s *servers) tablesRecreated(nonce string, within time.Duration, now time.Time) bool {
	s.Lock()
	defer s.Unlock()
	if s.tablesKnown && nonce != s.tables {
		s.recreatedUntil = now.Add(within)
	}
	s.tablesKnown, s.tables = true, nonce
	return now.Before(s.recreatedUntil)
}

// volatile notes whether the server says that it does not keep every commit, and
// returns whether one ever did. A setting that was changed while the server ran is
// gone after the very crash for which it matters.
func (s *servers) recordVolatile(now bool) bool {
	s.Lock()
	defer s.Unlock()
	s.volatileSeen = s.volatileSeen || now
	return s.volatileSeen
}

// booted notes which start of which server has answered a reading that began at
// began. careful says that what a crash before that start took with it may still be
// relied on: neither this process has seen this start for so long, by its own clock, nor
// has the one that vouches for a start in the table.
func (s *servers) recordBoot(boot, vouched string, within time.Duration, began, now time.Time) (careful bool, boots int) {
	s.Lock()
	defer s.Unlock()
	if boot != s.boot {
		if s.boot != "" {
			s.restarts++
		}
		s.boot, s.bootSeen = boot, now
	}
	// A second more: two starts in one look like one.
	return boot != vouched && began.Sub(s.bootSeen) < within+time.Second, s.restarts
}
