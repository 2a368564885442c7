package backend

import (
	"context"
	"errors"
	"testing"
)

func TestAGuardLetsInOneManagerUntilItIsClosed(t *testing.T) {
	var g SingleOwner
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	enter := func(ctx context.Context, nonce Nonce, want error) {
		t.Helper()
		if err := g.Enter(ctx, nonce); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("Enter(%q) = %v, want %v", nonce, err, want)
		}
	}
	enter(t.Context(), "", nil)
	enter(ended, "late", context.Canceled)
	if got := g.Nonce(); got != "" {
		t.Errorf("serves %q before anybody was let in", got)
	}
	enter(t.Context(), "first", nil)
	enter(t.Context(), "second", ErrInvalid)
	enter(t.Context(), "", nil)
	enter(t.Context(), "first", nil)
	if got := g.Nonce(); got != "first" {
		t.Errorf("serves %q, want the first that it heard of", got)
	}
	if !g.Close() || g.Close() {
		t.Error("Close does not say that it was the first")
	}
	enter(t.Context(), "first", ErrClosed)
	enter(ended, "first", ErrClosed)
}
