package conformance

import (
	"fmt"

	"github.com/go-election/go-election/backend"
)

// needsReliableListen skips a case unless Listen returns at every change.
func needsReliableListen(f facts) string {
	if f.Poll {
		return "Listen may miss changes (Guarantees.Poll)"
	}
	return needsListen(f)
}

// needsListen skips a case unless the backend has Listen.
func needsListen(f facts) string {
	if !f.Push {
		return "the store does not push (Guarantees.Push)"
	}
	return ""
}

// needsExpiryByChallengers skips a case unless challengers decide that a lease has
// expired.
func needsExpiryByChallengers(f facts) string {
	if f.Expiry != backend.ByChallengers {
		return fmt.Sprintf("the %s decides that a lease has expired (Guarantees.Expiry)", f.Expiry)
	}
	return ""
}

// needsExclusive skips a case if two candidates may hold a lease.
func needsExclusive(f facts) string {
	if !f.Exclusive {
		return "two candidates may hold a lease (Guarantees.Exclusive)"
	}
	return ""
}

// needsAll skips a case if any of the given functions does.
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
