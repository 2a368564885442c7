package manual_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/manual"
)

func TestInspectSaysWhoIsNamedAndWhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "leader.json")
	write(t, file, `{"version": 3, "leader": "node-1", "elections": {"billing": "node-2"}}`)
	for what, x := range map[string]struct {
		o     manual.Options
		wants []string
	}{
		"self":                    {manual.Options{Leader: manual.Self}, []string{`named: "self", by the configuration of this process`}},
		"an id":                   {manual.Options{Leader: "node-1"}, []string{`named: "node-1", by the configuration of this process`}},
		"nobody but for one":      {manual.Options{Leaders: map[string]string{"billing": "a"}}, []string{`named: "", by the configuration`, "a leader of their own: 1"}},
		"a file":                  {manual.Options{File: file}, []string{`named: "node-1", by ` + file + ", version 3", "a leader of their own: 1"}},
		"a directory, and a file": {manual.Options{File: file, Dir: filepath.Join(t.TempDir(), "d")}, []string{"version 3", "directory: ", "leases: 0 of"}},
	} {
		b := open(t, x.o)
		list, err := b.Inspect(t.Context(), ttl, ttl/3)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		text := ""
		for _, d := range list {
			text += d.String() + "\n"
		}
		for _, want := range x.wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: expected %q in:\n%s", what, want, text)
			}
		}
		if without := x.o.Dir == ""; without == strings.Contains(text, "directory: ") {
			t.Errorf("%s: expected the directory to be explained if there is one:\n%s", what, text)
		}
	}
}

func TestInspectFailsWithoutTheFile(t *testing.T) {
	b := open(t, manual.Options{File: filepath.Join(t.TempDir(), "none.json")})
	if _, err := b.Inspect(t.Context(), time.Second, time.Second); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("expected %v, got %v", backend.ErrDenied, err)
	}
}
