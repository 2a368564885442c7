package backend

import (
	"fmt"
	"math"
	"time"
)

// TermJump is about 13 days, in microseconds. If terms may have been granted that the store does
// not know, because another server wrote the record last or because a record is missing, [NextTerm]
// jumps: to the clock, plus TermJump, plus the time since 2026.
const TermJump = 1 << 40

// MaxTerm is the greatest term after which [NextTerm] grants another. A greater one in a store was
// forged. With any jump, terms fit a signed 64-bit column of the user's.
const MaxTerm = math.MaxInt64 >> 1

var since2026 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// NextTerm returns the term of a new grant. It exceeds last, the last term that the store
// knows, so that terms grow while the record lasts. It exceeds minTerm, so that they grow across
// stores. It is not less than the microseconds since 1970, so that they grow when the record
// was deleted or the store rebuilt. If jump is set, it exceeds every term that was granted
// before now, known or not, unless a clock was set back (docs/design/election.md, "Terms").
// now may come from any wall clock. NextTerm is part of the contract: all native layouts use it, so
// that a fenced resource needs no reset when the store changes.
func NextTerm(last uint64, jump bool, minTerm uint64, now time.Time) (uint64, error) {
	if last > MaxTerm || minTerm > MaxTerm {
		return 0, fmt.Errorf("%w: terms are used up: last %d, MinTerm %d, greatest %d; the record was damaged or edited", ErrDenied, last, minTerm, uint64(MaxTerm))
	}
	clock := uint64(max(now.UnixMicro(), 0))
	term := max(last+1, clock)
	if jump {
		step := TermJump + uint64(max(now.UnixMicro()-since2026, 0))
		if term = clock + step; term <= last { // the clock was set back, or the term was forged
			term = last + step
		}
	}
	return max(term, minTerm+1), nil
}
