package mysql

import (
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// The expressions for the identity of the answering server. MariaDB's server_uid alone is
// made of port and MAC address and repeats after a new installation; versions before
// 10.6.19 and 10.11.9 lack it.
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

// servers remembers which servers have answered. A server may replace another. Servers that
// alternate all accept writes, and then no lease means anything. See docs/design/mysql.md,
// "Alternating servers".
type servers struct {
	sync.Mutex
	current, previous string
	replaced          map[string]time.Time // when each of the others was last replaced
	alternatingUntil  time.Time            // until when they count as alternating

	tablesKnown    bool      // tables is set
	tables         string    // the nonce of the tables; "" if they were created by hand
	recreatedUntil time.Time // until when holders may rely on leases that are gone from the tables

	volatileSeen bool      // a server that does not keep every commit was seen
	boot         string    // which start of which server answered last
	bootSeen     time.Time // when this process first saw it
	restarts     int       // how many other starts answered before
}

// maxServers is how many replaced servers are remembered.
const maxServers = 64

// recordAnswer records which server has answered. changed reports that another one answered
// last time; err, that servers alternate.
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

// recordReplaced records that a server was replaced. If there are too many, the one that
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
	oldest := id
	for other, at := range s.replaced {
		if at.Before(s.replaced[oldest]) {
			oldest = other
		}
	}
	delete(s.replaced, oldest)
}

// tablesRecreated records the nonce of the tables. It reports whether the tables were
// dropped and created again a short time ago: their leases are gone, but the holders may
// not know it yet.
func (s *servers) tablesRecreated(nonce string, within time.Duration, now time.Time) bool {
	s.Lock()
	defer s.Unlock()
	if s.tablesKnown && nonce != s.tables {
		s.recreatedUntil = now.Add(within)
	}
	s.tablesKnown, s.tables = true, nonce
	return now.Before(s.recreatedUntil)
}

// recordVolatile records whether the server does not keep every commit, and reports whether
// any server ever did not. A setting that was changed while the server ran is gone after
// the very crash for which it matters.
func (s *servers) recordVolatile(volatile bool) bool {
	s.Lock()
	defer s.Unlock()
	s.volatileSeen = s.volatileSeen || volatile
	return s.volatileSeen
}

// recordBoot records which start of which server answered a read that began at began.
// unclean reports that processes may still rely on what a crash before that start lost:
// this process has not seen this start for long enough, by its own clock, and verified, the
// start that another process has recorded in the table, is a different one.
func (s *servers) recordBoot(boot, verified string, within time.Duration, began, now time.Time) (unclean bool, restarts int) {
	s.Lock()
	defer s.Unlock()
	if boot != s.boot {
		if s.boot != "" {
			s.restarts++
		}
		s.boot, s.bootSeen = boot, now
	}
	// One second is added, because two starts within one second look like one.
	return boot != verified && began.Sub(s.bootSeen) < within+time.Second, s.restarts
}
