package relational

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/lease"
)

// A large reading keeps what it has decoded. Another text of the same item is decoded all the same, also one that is
// invalid, and one that was there before.
func TestATextThatHasChangedIsDecodedAgain(t *testing.T) {
	d, k := &Driver{}, lease.Key{Kind: lease.Records, Name: "a"}
	read := func(text string) lease.Value {
		decode, keep := d.decoder(largeReading)
		defer keep()
		return decode(k, []byte(text))
	}
	text := func(term uint64) string { return lease.Encode(&lease.Record{Election: "a", Term: term}) }

	first := read(text(1))
	if again := read(text(1)); again != first {
		t.Error("the same text was decoded again")
	}
	for _, term := range []uint64{2, 1} {
		r, _ := read(text(term)).(*lease.Record)
		if r == nil || r.Term != term {
			t.Fatalf("a text with the term %d reads %+v", term, r)
		}
		if v := read("no record"); v != nil {
			t.Fatalf("a text that is no record reads %+v", v)
		}
	}
}

// A leader of thousands has read them once, before it led them, and only writes from then on.
func TestWhoReadsNoMoreKeepsNoValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Driver{MaxTTL: 15 * time.Second}
		_, keep := d.decoder(largeReading)
		keep()
		for _, kept := range []bool{true, false} { // a reading comes once in 15 s
			time.Sleep(10 * time.Second)
			if d.dropOld(); d.values.Load() != nil != kept {
				t.Errorf("values are kept: %v, want %v", !kept, kept)
			}
		}
	})
}
