package elect

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A client library that prints lines of its own is silent, and its error is one line, however many addresses it tried.
func TestClientLibrariesPrintNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "election.yaml")
	text := "backend: redis\nredis:\n  addresses: [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n  master: mymaster\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.CommandContext(t.Context(), binary, "status", "--config", file).CombinedOutput()
	if !strings.Contains(string(out), "refused") || strings.Contains(string(out), "redis: 2") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("it prints:\n%s", out)
	}
}
