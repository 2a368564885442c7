package config_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// A program migrates to another store and back: each step changes one word of its configuration.
func TestAMigrationSectionNamesTwoOthers(t *testing.T) {
	dir := t.TempDir()
	text := `
ttl: 30s
backend: migration
migration: {from: file, to: memory}
file: {dir: ` + dir + `}
`
	var last uint64
	for _, stage := range []string{"", "from", "both", "to", "both", "from", ""} {
		environ := "ELECTION_MIGRATION_STAGE=" + stage
		if stage == "" {
			environ = "ELECTION_BACKEND=file"
		}
		c, err := parse(text, environ)
		testbed.NoError(t, err)
		m, err := c.Open(t.Context())
		if err != nil {
			t.Fatalf("stage %q: %v", stage, err)
		}
		e, err := m.Join("billing")
		testbed.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		lead, err := e.Campaign(ctx)
		cancel()
		if err != nil {
			t.Fatalf("stage %q: %v", stage, err)
		}
		if lead.Term <= last {
			t.Errorf("stage %q leads in term %d after %d", stage, lead.Term, last)
		}
		last = lead.Term
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}

	// One process stays on the old store after the others have moved.
	for _, environ := range []string{"ELECTION_MIGRATION_STAGE=both", "ELECTION_MIGRATION_STAGE=to"} {
		tryOnce(t, text, environ, true)
	}
	ev := tryOnce(t, text, "ELECTION_BACKEND=file", false)
	if ev.Reason != election.ReasonMoved || ev.Err == nil || !strings.Contains(ev.Err.Error(), "moved to memory") {
		t.Errorf("the process on the old store has the event %v, %v", ev, ev.Err)
	}
}

// tryOnce makes one attempt and returns the process's last event.
func tryOnce(t *testing.T, text, environ string, wins bool) election.Event {
	c, err := parse(text, environ)
	testbed.NoError(t, err)
	m, err := c.Open(t.Context())
	testbed.NoError(t, err)
	defer m.Close(t.Context())
	e, err := m.Join("billing")
	testbed.NoError(t, err)
	lead, err := e.Try(t.Context())
	if err != nil && !errors.Is(err, election.ErrNotElected) {
		t.Fatal(err)
	}
	if (lead != nil) != wins {
		t.Errorf("%s: the process leads: %v, want %v", environ, lead != nil, wins)
	}
	return e.Current()
}

func TestMigrationMistakesAreDescribed(t *testing.T) {
	for _, c := range []struct{ section, says string }{
		{"{from: fil, to: memory, stage: both}", `election.yaml:3: migration.from: no backend is called "fil"`},
		{"{from: file, to: memory}", `stage is ""; it must be "from", "both" or "to"`},
		{"{from: file, to: memory, stage: half}", `stage is "half"; it must be "from", "both" or "to"`},
		{"{to: memory, stage: both}", `from is "" and to is "memory"; they must be the names of two stores`},
		{"{from: migration, to: memory, stage: both}", `from is "migration" and to is "memory"; they must be the names of two stores`},
		{"{from: file, to: memory, stage: both, unsealed: true}", `unsealed is for stage "to"`},
		{"{from: memory, to: etcd, stage: both}", `etcd: no endpoints`},
	} {
		conf, err := parse("ttl: 6s\nbackend: migration\nmigration: " + c.section + "\nfile: {dir: " + t.TempDir() + "}\n")
		if err == nil {
			err = conf.Validate(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v\nit should say %s", c.section, err, c.says)
		}
	}
}
