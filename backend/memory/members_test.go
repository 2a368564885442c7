package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
)

// A program that makes a manager for each job must not keep all their member records.
func TestMembersAreDeletedAfterTwoTTLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		announce := func() {
			b := s.Backend()
			defer b.Close()
			m := backend.Member{Candidate: backend.Candidate{ID: "x", Nonce: backend.NewNonce()}, TTL: time.Second}
			if err := b.Announce(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			announce()
		}
		time.Sleep(2 * time.Second) // exactly two TTLs: all stay
		if announce(); len(s.members) != 101 {
			t.Errorf("expected 101 members after two TTLs, got %d", len(s.members))
		}
		time.Sleep(2*time.Second + time.Millisecond)
		if announce(); len(s.members) != 1 {
			t.Errorf("expected one member after more than two TTLs, got %d", len(s.members))
		}
	})
}
