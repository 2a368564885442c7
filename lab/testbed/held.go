package testbed

import "github.com/go-election/go-election/backend"

// Held returns what a holder of these leases passes to Renew, Mark and Release.
func Held(leases ...backend.Lease) []backend.Held {
	held := make([]backend.Held, len(leases))
	for i, l := range leases {
		held[i] = l.Held()
	}
	return held
}
