package testbed

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"
)

// errGiveUp, wrapped in the error that f returns, ends a poll at once.
var errGiveUp = errors.New("giving up")

// poll calls f until it returns nil. After limit it calls f once more and returns that
// error: a test that was stopped for longer than limit still gets one attempt.
//
// Limits of a minute or more only express patience. They exclude the time that the host
// of a virtual machine gave to other machines, up to three limits. A shorter limit is a
// bound that a test asserts, and excludes nothing.
func poll(limit time.Duration, f func() error) error { return pollBy(limit, stolen, f) }

func pollBy(limit time.Duration, stolen func() time.Duration, f func() error) error {
	began, before := time.Now(), stolen()
	for over := false; ; {
		err := f()
		if err == nil || over || errors.Is(err, errGiveUp) {
			return err
		}
		<-time.After(min(max(5*time.Millisecond, time.Since(began)/50), 100*time.Millisecond)) // poll less often as time passes
		if took := time.Since(began); took >= limit {
			over = limit < time.Minute || took-min(stolen()-before, 3*limit) >= limit
		}
	}
}

// stolen returns for how long, since boot and on average, the host has kept a processor
// from this machine although it had work. It returns 0 where the kernel does not say.
func stolen() time.Duration {
	stat, _ := os.ReadFile("/proc/stat")
	return stolenIn(string(stat))
}

// stolenIn parses /proc/stat. The eighth time in the line of all processors is in
// hundredths of a second; a line for each processor follows. See proc_stat(5).
func stolenIn(stat string) time.Duration {
	line, rest, _ := strings.Cut(stat, "\n")
	times := strings.Fields(line)
	if len(times) < 9 || times[0] != "cpu" {
		return 0
	}
	ticks, _ := strconv.ParseInt(times[8], 10, 64)
	return time.Duration(ticks) * 10 * time.Millisecond / time.Duration(max(1, strings.Count("\n"+rest, "\ncpu")))
}
