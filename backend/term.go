package backend

import (
	"fmt"
	"math"
	"time"
)

// TermJump is how far a term is ahead of the clock, at least, when the record was last
// written by another server, or is gone: terms may have been granted that nobody knows
// any more. The microseconds since 2026 are added as well, so that a jump is ahead of
// each earlier one, and of the terms that have followed that one by one.
//
// So no term is ever greater than a jump of the moment in which it is granted, and a jump
// exceeds all that were granted before, lost or not, as long as the clocks of those who
// grant do not go back. Were jumps counted from the last known term, they would add up, and
// exceed what a third copy grants that knows of none of them: after two fail-overs or
// restores, and a deletion. Only if the last term is greater than such a jump, since a
// clock was set back or a term was planted, the jump is counted from that.
const TermJump = 1 << 40

var since2026 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// NextTerm returns the term of a new grant. It exceeds last, the last term that
// the store knows, and floor, and is not less than the microseconds since 1970.
// The first keeps terms growing while the record lasts; the second, across
// stores; the third, when the record was deleted or the store rebuilt. If foreign,
// that is if another server wrote the record or it may have been lost, it is a jump: see
// [TermJump]. now needs to be no better than any wall clock. All native layouts use it, so that a fenced resource never has
// to be reset when the store changes.
func NextTerm(last uint64, foreign bool, floor uint64, now time.Time) (uint64, error) {
	const most = math.MaxInt64 >> 1 // with any step, terms fit a signed 64-bit column of the user's
	if last > most || floor > most {
		return 0, fmt.Errorf("%w: terms are used up: last %d, floor %d, greatest %d; the record was damaged or planted", ErrDenied, last, floor, uint64(most))
	}
	clock := uint64(max(now.UnixMicro(), 0))
	term := max(last+1, clock)
	if foreign {
		jump := TermJump + uint64(max(now.UnixMicro()-since2026, 0))
		if term = clock + jump; term <= last {
			term = last + jump
		}
	}
	return max(term, floor+1), nil
}
