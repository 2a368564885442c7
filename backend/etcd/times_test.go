package etcd

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// Times of a manually written record are copied into the next record. A time that JSON cannot
// encode must not be.
func TestATimeThatCannotBeWrittenIsNotKept(t *testing.T) {
	for _, bad := range []string{"2026-01-01T00:00:00+24:00", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"} {
		r := readRecord(fmt.Appendf(nil, `{"term":7,"id":"a","nonce":"n","elected":%q,"written":%q,"history":[{"term":6,"id":"b","from":%q,"to":%q}]}`, bad, bad, bad, bad))
		if r == nil {
			continue // the whole record is invalid
		}
		e := entry{record: r}
		_, _, r.History = e.endLeadership(backend.Failed, time.Now().UTC())
		encode(r) // panics if it cannot
	}
}
