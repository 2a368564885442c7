package migration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
)

// An inspected store has one thing to say, or cannot be reached.
type inspected struct {
	Inner
	err error
}

func (i inspected) Inspect(context.Context, time.Duration, time.Duration) ([]backend.Diagnostic, error) {
	if i.err != nil {
		return nil, i.err
	}
	return []backend.Diagnostic{{What: "server", Text: "fine"}}, nil
}

// Each diagnostic begins with the name of its store.
func TestInspectAsksTheStoresThatAreUsed(t *testing.T) {
	silent := memory.New().Backend()
	store := func(err error) backend.Backend { return inspected{memory.New().Backend().(Inner), err} }
	answers, other, unreachable := store(nil), store(nil), store(backend.ErrUnavailable)
	for _, c := range []struct {
		stage    migration.Stage
		from, to backend.Backend
		texts    string // with the error
		class    error
	}{
		{from, answers, other, "here: fine", nil},
		{both, answers, other, "here: fine; there: fine", nil},
		{to, answers, other, "there: fine", nil},
		{both, silent, answers, "there: fine", nil},
		{both, answers, unreachable, "here: fine; there: " + backend.ErrUnavailable.Error(), backend.ErrUnavailable},
		{both, unreachable, answers, "there: fine; here: " + backend.ErrUnavailable.Error(), backend.ErrUnavailable},
		{to, unreachable, answers, "there: fine", nil},
	} {
		b := road(t, migration.Options{From: c.from, To: c.to, FromName: "here", ToName: "there", Stage: c.stage})
		list, err := b.(backend.Inspector).Inspect(t.Context(), 10*time.Second, 3*time.Second)
		var texts []string
		for _, d := range list {
			texts = append(texts, map[bool]string{true: "WARNING "}[d.Warning]+d.Text)
		}
		if err != nil {
			texts = append(texts, err.Error())
		}
		if got := strings.Join(texts, "; "); got != c.texts || !errors.Is(err, c.class) {
			t.Errorf("at stage %s: %s, %v; want %s", c.stage, got, err, c.texts)
		}
	}
}
