//go:build linux

package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

func TestFiguresAreReadAsTheyAreWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "figures.json")
	for i := range 20 {
		f, err := ReadFigures(name)
		testbed.NoError(t, err)
		h := good()
		h.Seed = uint64(i)
		f.Add(h, i == 7)
		testbed.NoError(t, f.Write(name))
	}
	f, err := ReadFigures(name)
	testbed.NoError(t, err)
	l := f.Of("mysql on MariaDB", "kill -9")
	if len(f) != 1 || l.Histories != 20 || l.Bites != 20 || l.Violations != 1 || l.Seed != 19 || l.Gaps.Count() != 40 || len(l.Broken) != 1 || l.Broken[0] != 7 {
		t.Errorf("%d rows, the first is %+v; want 20 histories, 20 faults that hit a leader, 40 gaps, and the violation of seed 7", len(f), *l)
	}
	if q := l.Gaps.Quantile(.5); q < 1900*time.Millisecond || q > 2100*time.Millisecond {
		t.Errorf("median gap %v, want 2 s within three percent", q)
	}
}

func TestAnIdleHistoryIsCountedApart(t *testing.T) {
	var f Figures
	h := good()
	h.Bands[0].Bit = false
	f.Add(h, false)
	if l := f[0]; l.Histories != 0 || l.Idle != 1 || l.Faults != 1 {
		t.Errorf("%+v, want one idle history", *l)
	}
}

func TestAnUnreadableFileOfFiguresIsAnError(t *testing.T) {
	name := filepath.Join(t.TempDir(), "figures.json")
	testbed.NoError(t, os.WriteFile(name, []byte("[{"), 0o600))
	if _, err := ReadFigures(name); err == nil {
		t.Error("ReadFigures accepted a malformed file")
	}
}

func TestTheDocsPageHasAPlaceForTheFigures(t *testing.T) {
	text, err := os.ReadFile(page)
	testbed.NoError(t, err)
	name := filepath.Join(t.TempDir(), "chaos.md")
	var f Figures
	f.Add(good(), true)
	for range 2 { // the second time replaces the first
		testbed.NoError(t, os.WriteFile(name, text, 0o600))
		testbed.NoError(t, f.WriteInto(name))
		if text, err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(string(text), "| mysql on MariaDB | 1 | 1 of 1 | 1 |"); n != 1 || !strings.Contains(string(text), "seeds 7.") {
		t.Errorf("the page has the row %d times, want once, and the seed of the history that broke a rule:\n%s", n, text)
	}
}
