package single_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/single"
)

func TestAnOwnerIsTheFirstManagerUntilClose(t *testing.T) {
	var o single.Owner
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	enter := func(ctx context.Context, nonce backend.Nonce, want error) {
		t.Helper()
		if err := o.Enter(ctx, nonce); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("Enter(%q) = %v, want %v", nonce, err, want)
		}
	}
	enter(t.Context(), "", nil)
	enter(t.Context(), "first", nil)
	enter(ended, "first", context.Canceled)
	enter(t.Context(), "second", backend.ErrInvalid)
	enter(t.Context(), "", nil)
	enter(t.Context(), "first", nil)
	if got := o.Nonce(); got != "first" {
		t.Errorf("serves %q, want that of the first call", got)
	}
	if !o.Close() || o.Close() {
		t.Error("Close does not say that it was the first")
	}
	enter(t.Context(), "first", backend.ErrClosed)
	enter(ended, "first", backend.ErrClosed)
}
