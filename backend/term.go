package backend

import (
	"fmt"
	"math"
	"time"
)

// TermJump is added to the last known term or the time, instead of 1, when another server
// last wrote the record, or when the record is missing. It skips the terms that a lossy
// failover may have lost. [NextTerm] also adds the microseconds since 2026: while the terms
// are ahead of the clock after an earlier jump, a failover that loses the first grant after
// another failover would otherwise repeat its term (backend/mysql's failover tests found it).
const TermJump = 1 << 40

var since2026 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// NextTerm returns the term of a new grant. It exceeds last, the last term that the store
// knows, so that terms grow while the record lasts. It exceeds floor, so that they grow across
// stores. It is not less than the microseconds since 1970, so that they grow when the record
// was deleted or the store rebuilt. If foreign is set (another server wrote the record, or the
// record may have been lost), the term exceeds last and those microseconds by a jump. now may
// come from any wall clock. All native layouts use NextTerm, so that a fenced resource needs
// no reset when the store changes.
func NextTerm(last uint64, foreign bool, floor uint64, now time.Time) (uint64, error) {
	const most = math.MaxInt64 >> 1 // with any step, terms fit a signed 64-bit column of the user's
	if last > most || floor > most {
		return 0, fmt.Errorf("%w: terms are used up: last %d, floor %d, greatest %d; the record was damaged or planted", ErrDenied, last, floor, uint64(most))
	}
	clock := uint64(max(now.UnixMicro(), 0))
	term := max(last+1, clock)
	if foreign {
		term = max(last, clock) + TermJump + uint64(max(now.UnixMicro()-since2026, 0))
	}
	return max(term, floor+1), nil
}
