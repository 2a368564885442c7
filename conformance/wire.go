package conformance

import (
	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/wire"
)

// A Wire is a [backend.Backend] that passes calls to another one; see [Wrap].
type Wire = wire.Wire

// A Call is one call of a Backend, as the wire saw it.
type Call = wire.Call

// A Fate is what the wire does to a call. The zero Fate passes it.
type Fate = wire.Fate

// Wrap puts a wire before a backend. The wire records every call, and can lose, delay,
// repeat or spoil it. It works with every backend and in virtual time. At first it passes
// every call.
func Wrap(b backend.Backend) *Wire { return wire.Wrap(b) }
