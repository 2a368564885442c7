package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

func TestTheFleetMovesThereAndBack(t *testing.T) {
	testbed.Full(t, "kills processes")
	out, err := exec.CommandContext(t.Context(), "go", "run", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, stage := range []string{"from", "both", "to"} {
		if !strings.Contains(string(out), `at "`+stage+`", leads in term `) {
			t.Errorf("nobody leads at %q:\n%s", stage, out)
		}
	}
}
