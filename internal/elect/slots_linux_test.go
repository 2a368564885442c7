package elect

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// With --slots 2, two of three processes run the command. When one ends, the third takes its slot.
func TestNoMoreCommandsRunThanThereAreSlots(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	var fleet []*member
	for _, id := range []string{"host-1", "host-2", "host-3"} {
		fleet = append(fleet, start(t, env, "run", "job", "--id", id, "--slots", "2", "--", "sh", "-c", "echo I have $ELECTION_NAME; exec sleep 1000"))
	}
	running := func() (first *member, slots []string) {
		for _, m := range fleet {
			for _, slot := range []string{"job/1", "job/2"} {
				if !m.hasEnded() && strings.Contains(m.output.String(), "I have "+slot) {
					first, slots = m, append(slots, slot)
				}
			}
		}
		return first, slots
	}
	two := func() error {
		if _, slots := running(); len(slots) != 2 || slots[0] == slots[1] {
			return fmt.Errorf("these are taken: %q", slots)
		}
		return nil
	}
	testbed.Eventually(t, patience, "two of three run, in two slots", two)
	first, _ := running()
	first.Process.Signal(os.Interrupt)
	if code := first.code(); code != 128+int(2) && code != 0 {
		t.Errorf("the process that was asked to end has code %d: %s", code, first.output.String())
	}
	testbed.Eventually(t, patience, "the third has the slot of the one that has ended", two)
}

// A command that has ended is not started again in another slot.
func TestACommandThatHasEndedLeavesAllSlots(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	out, code := call(t, env, "run", "job", "--slots", "5", "--", "sh", "-c", "echo it ran; exit 3")
	if n := strings.Count(out, "it ran"); code != 3 || n != 1 {
		t.Errorf("the command ran %d times, with code %d: %s", n, code, out)
	}
}
