package electiontest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/go-election/go-election/backend/redis"
	"github.com/go-election/go-election/config"
)

// A test binary is no program that can be started again as a guard. The error says how to go without.
func TestAConfigurationWithAGuardCanBeTested(t *testing.T) {
	file := filepath.Join(t.TempDir(), "election.yaml")
	text := "backend: redis\nguard: true\nredis: {addresses: [127.0.0.1:1]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	c, err := config.Load(file, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartGuard(); err == nil || !strings.Contains(err.Error(), "ELECTION_GUARD=false") {
		t.Errorf("a guard in a test: %v; want an error that names ELECTION_GUARD=false", err)
	}

	t.Setenv("ELECTION_GUARD", "false")
	if c, err = config.Load(file, config.Options{}); err != nil {
		t.Fatal(err)
	}
	if c.Guard {
		t.Error("ELECTION_GUARD=false leaves the guard on")
	}
}
