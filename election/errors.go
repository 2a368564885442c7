package election

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Errors of this package, besides those of the store (package backend). Test for them with errors.Is.
var (
	// ErrClosed is returned after Close or Leave. It wraps backend.ErrClosed.
	ErrClosed = fmt.Errorf("election: %w", backend.ErrClosed)

	// ErrNotElected is returned by Try: another process leads, or another candidate was faster.
	ErrNotElected = errors.New("election: not elected")

	// ErrJoined is returned by Join: this manager has already joined the election. It wraps
	// backend.ErrInvalid.
	ErrJoined = fmt.Errorf("election: %w: joined already", backend.ErrInvalid)

	// ErrCampaigning is returned by Lead, Run, Campaign and Try: this process already campaigns
	// for the election, or leads it. It wraps backend.ErrInvalid.
	ErrCampaigning = fmt.Errorf("election: %w: campaigning or leading already", backend.ErrInvalid)

	// ErrOwnCaller is returned by Resign, Leave and Close when a lead function or a callback calls them and
	// they would have to wait for it: it should return instead. The call has done nothing. It wraps
	// backend.ErrInvalid.
	ErrOwnCaller = fmt.Errorf("election: %w: called by a function that it would wait for: return from it",
		backend.ErrInvalid)

	// ErrNotReleased is returned by Close, Run, Resign and Leave: the lease has expired before the store
	// confirmed its release. Another process can lead now, later than after a release.
	ErrNotReleased = errors.New("election: the lease expired before its release was confirmed")
)

func notReleased(err error, elections ...string) error {
	if err == nil {
		return fmt.Errorf("%w: %s", ErrNotReleased, someNames(elections))
	}
	return fmt.Errorf("%w: %s: %w", ErrNotReleased, someNames(elections), err)
}
