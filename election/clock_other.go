//go:build !linux

package election

import "time"

// boottime has no portable form. Without it a holder also believes the wall
// clock when that jumps forward.
func boottime() (time.Duration, bool) { return 0, false }
