package lease

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
		r, _ := Decode(Records, fmt.Appendf(nil, `{"term":7,"id":"a","nonce":"n","elected":%q,"written":%q,"history":[{"term":6,"id":"b","from":%q,"to":%q}]}`, bad, bad, bad, bad)).(*Record)
		if r == nil {
			continue // the whole record is invalid
		}
		s := state{record: r}
		_, _, r.History = s.endLeadership(backend.Failed, time.Now().UTC())
		Encode(r) // panics if it cannot
	}
}
