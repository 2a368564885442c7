package backend

import (
	"fmt"
	"math"
	"time"
)

// TermJump is a day, in microseconds. If terms may have been granted that the store does not know,
// because another server wrote the record last or because a record is missing, [NextTerm] jumps: to
// the clock plus TermJump.
const TermJump = 86_400_000_000

// MaxTerm is the greatest term after which [NextTerm] grants another. A greater one in a store was
// forged. With any jump, terms fit a signed 64-bit column of the user's.
const MaxTerm = math.MaxInt64 >> 1

// NextTerm returns the term of a new grant.
//
//   - It exceeds last, the last term that the store knows, so that terms grow while the record lasts.
//   - It exceeds minTerm, so that they grow across stores.
//   - It is not less than the microseconds since 1970, so that they grow when the record was deleted or the
//     store rebuilt.
//   - If jump is set, it exceeds every term that was granted before now, known or not, unless clocks were
//     wrong by more than a day, or a jump was granted by a clock that was ahead and is not known
//     (docs/design/election.md, "Terms").
//
// now may come from any wall clock. NextTerm is part of the contract: all native layouts use it, so
// that a fenced resource needs no reset when the store changes.
func NextTerm(last uint64, jump bool, minTerm uint64, now time.Time) (uint64, error) {
	if last > MaxTerm || minTerm > MaxTerm {
		return 0, fmt.Errorf("%w: last term %d or MinTerm %d exceeds %d: the record was damaged or edited",
			ErrDenied, last, minTerm, uint64(MaxTerm))
	}
	clock := uint64(max(now.UnixMicro(), 0))
	term := max(last+1, clock)
	if jump {
		days := uint64(1)
		if last > clock { // more than one if the clock was set back, or the term was forged
			days += (last - clock) / TermJump
		}
		term = clock + days*TermJump
	}
	return max(term, minTerm+1), nil
}

// GrownTerm returns what to pass to [NextTerm] as the last term of an election; written is when the store got
// it. A store that has lost the grants after it, and does not know that, must not grant their terms again.
// Usually the clock sees to that, since terms come from it. A term that is ahead of the clock, as after a
// jump, grows by one in 16 µs. The clock runs 16 times as fast and overtakes it 16/15 of a day after the
// jump; from then on terms come from the clock again.
func GrownTerm(last uint64, written, now time.Time) uint64 {
	grown := min(max(now.Sub(written)/(16*time.Microsecond), 1), TermJump/15)
	return max(last, min(last+uint64(grown)-1, MaxTerm)) // NextTerm adds one
}
