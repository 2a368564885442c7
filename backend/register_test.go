package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
	_ "github.com/go-election/go-election/backend/memory"
)

func TestABackendIsChosenByName(t *testing.T) {
	b, err := backend.Open("memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if name := b.Guarantees().Name; name != "memory" {
		t.Errorf("opened %q", name)
	}
}

func TestAnUnknownNameIsAnErrorThatNamesTheKnown(t *testing.T) {
	_, err := backend.Open("zoo", nil)
	if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("got %v", err)
	}
}

func TestAnErrorInTheConfigurationIsReported(t *testing.T) {
	bad := errors.New("unknown key")
	if _, err := backend.Open("memory", func(any) error { return bad }); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsHaveAClass(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{context.DeadlineExceeded, backend.ErrUnavailable},
		{errors.New("anything"), backend.ErrUnavailable},
		{fmt.Errorf("mysql: %w: no such table", backend.ErrDenied), backend.ErrDenied},
		{backend.ErrStale, backend.ErrInvalid},
		{backend.ErrClosed, backend.ErrInvalid},
	} {
		if got := backend.Class(c.err); got != c.want {
			t.Errorf("Class(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}
