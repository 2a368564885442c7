//go:build !linux

package election

import "time"

// boottime has no portable form. Without it a holder counts forward jumps of the wall clock as time
// that has passed.
func boottime() (time.Duration, bool) { return 0, false }
