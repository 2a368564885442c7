package backend

import (
	"fmt"
	"math"
	"time"
)

// TermJump is added to the last known term or the time, instead of 1, when the
// record was last written by another server, or is gone: the terms that a lossy
// failover may have lost are thereby skipped. The microseconds since 2026 are
// added as well. Without them, while the terms are ahead of the clock after an
// earlier jump, a failover that loses the first grant after another failover
// repeats its term (seen in backend/mysql's failover tests).
const TermJump = 1 << 40

var since2026 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// NextTerm returns the term of a new grant. It exceeds last, the last term that
// the store knows, and floor, and is not less than the microseconds since 1970.
// The first keeps terms growing while the record lasts; the second, across
// stores; the third, when the record was deleted or the store rebuilt. If foreign,
// that is if another server wrote the record or it may have been lost, the term
// exceeds last and those microseconds by a jump. now needs to be no better than
// any wall clock. All native layouts use it, so that a fenced resource never has
// to be reset when the store changes.
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
