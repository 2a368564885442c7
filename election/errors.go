package election

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Errors that this package returns besides those of the store.
var (
	// ErrClosed is returned after Close or Leave. It wraps backend.ErrClosed.
	ErrClosed = fmt.Errorf("election: %w", backend.ErrClosed)

	// ErrNotElected is returned by Try: somebody else leads, or another candidate was faster.
	ErrNotElected = errors.New("election: not elected")

	// ErrJoined is returned by Join: this manager takes part in that election already. It
	// wraps backend.ErrInvalid.
	ErrJoined = fmt.Errorf("election: %w: joined already", backend.ErrInvalid)

	// ErrCampaigning is returned by Lead, Run, Campaign and Try: this process campaigns for
	// the election already, or leads it. It wraps backend.ErrInvalid.
	ErrCampaigning = fmt.Errorf("election: %w: campaigning or leading already", backend.ErrInvalid)

	// ErrOwnCaller is returned by Resign, Leave and Close when they are called by a lead
	// function or a callback that they would have to wait for: the function should return
	// instead. It wraps backend.ErrInvalid. Nothing has been done.
	ErrOwnCaller = fmt.Errorf("election: %w: called by the function that it would wait for; return from it instead", backend.ErrInvalid)

	// ErrNotReleased is returned by Close, Run, Resign and Leave, which wait for the release
	// of a lease: the store has not confirmed it, and by now the lease has expired. Somebody
	// else can have it, later than after a release.
	ErrNotReleased = errors.New("election: the lease expired before its release was confirmed")
)

func notReleased(name string, err error) error {
	if err == nil {
		return fmt.Errorf("%w: %q", ErrNotReleased, name)
	}
	return fmt.Errorf("%w: %q: %w", ErrNotReleased, name, err)
}
