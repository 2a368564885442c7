package conformance

import (
	"fmt"

	"github.com/go-election/go-election/backend"
)

// pushed skips a case unless Listen hears of every change.
func needsReliableListen(f facts) string {
	switch {
	case !f.Push:
		return "the store does not push (Guarantees.Push)"
	case f.Poll:
		return "Listen may miss changes (Guarantees.Poll)"
	}
	return ""
}

// listens skips a case unless there is a Listen.
func needsListen(f facts) string {
	if !f.Push {
		return "the store does not push (Guarantees.Push)"
	}
	return ""
}

// watched skips a case unless challengers decide that a lease has run out.
func needsExpiryByChallengers(f facts) string {
	if f.Expiry != backend.ByChallengers {
		return fmt.Sprintf("leases are expired by the %s (Guarantees.Expiry)", f.Expiry)
	}
	return ""
}

// expires skips a case about a lease that ends because it is not renewed.
func needsExpiry(f facts) string {
	if f.Expiry == backend.ByKernel {
		return "a lease lasts as long as its holder's process (Guarantees.Expiry)"
	}
	return ""
}

// exclusive skips a case if two may hold a lease.
func needsExclusive(f facts) string {
	if !f.Exclusive {
		return "two candidates may hold a lease (Guarantees.Exclusive)"
	}
	return ""
}

// all skips a case if one of several reasons to skip it holds.
func needsAll(skips ...func(facts) string) func(facts) string {
	return func(f facts) string {
		for _, skip := range skips {
			if why := skip(f); why != "" {
				return why
			}
		}
		return ""
	}
}
