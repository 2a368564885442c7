package electionguard

import "testing"

// The line that says who the program is may be lost. What it holds then is not known, either: nobody could release it.
func TestWhatIsHeldByNobodyKnownIsNotHeld(t *testing.T) {
	h := &holdings{terms: map[string]uint64{}}
	h.apply([]byte(`{"Holds":"jobs","Term":7}`))
	if held := h.held(); len(held) > 0 {
		t.Errorf("held without a holder: %+v", held)
	}
	h.apply([]byte(`{"Nonce":"0123","TTL":1000000000,"Holds":"jobs"}`))
	if held := h.held(); len(held) != 1 || held[0].Holder.Nonce != "0123" {
		t.Errorf("held by 0123: %+v", held)
	}
}
