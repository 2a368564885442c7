package backend

import (
	"math"
	"testing"
	"time"
)

func FuzzNextTerm(f *testing.F) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixMicro()
	for _, last := range []uint64{0, 1, uint64(now), math.MaxInt64 >> 1, math.MaxInt64, math.MaxUint64} {
		f.Add(last, true, last/2, now)
		f.Add(uint64(7), false, last, -now)
	}
	f.Add(uint64(0), true, uint64(0), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, last uint64, jump bool, floor uint64, us int64) {
		const year10000 = 253402300800_000_000 // what any store's clock can say
		us %= year10000
		term, err := NextTerm(last, jump, floor, time.UnixMicro(us))
		if err != nil {
			return
		}
		if term <= last || term <= floor || int64(term) < us || term > math.MaxInt64 {
			t.Errorf("after %d, above %d, at %d µs: term %d", last, floor, us, term)
		}
		if jump && int64(term) < us+TermJump {
			t.Errorf("at %d µs, after %d, which may not be the last one: term %d, which a lost one may have had", us, last, term)
		}
	})
}
