package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A fake is a test that notes how it ended.
type fake struct {
	testing.TB
	ended, text string
}

func (f *fake) Helper()                           {}
func (f *fake) Skipf(format string, args ...any)  { f.end("skip", format, args) }
func (f *fake) Fatalf(format string, args ...any) { f.end("fatal", format, args) }

func (f *fake) end(how, format string, args []any) {
	f.ended, f.text = how, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// ending returns how a test that does this ends: "skip", "fatal" or "".
func ending(t *testing.T, do func(tb testing.TB)) (how, text string) {
	t.Helper()
	f := &fake{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { do(f) })
	wg.Wait()
	return f.ended, f.text
}

func TestMissingServers(t *testing.T) {
	for _, test := range []struct {
		ci     string
		kind   Kind
		want   string
		report string
	}{
		{"", MariaDB, "skip", "skipped: MariaDB"},
		{"", MySQL, "skip", "skipped: MySQL"},
		{"true", MariaDB, "fatal", "MISSING: MariaDB"},
		{"true", MySQL, "skip", "MYSQL 9 IS MISSING"},
	} {
		name := filepath.Join(t.TempDir(), "report")
		t.Setenv("CI", test.ci)
		t.Setenv("ELECTION_TEST_REPORT", name)
		how, text := ending(t, func(tb testing.TB) {
			unavailable(tb, &missing{test.kind, string(test.kind), "Debian: some-package"})
		})
		if how != test.want || !strings.Contains(text, "some-package") {
			t.Errorf("CI=%q, no %s: %s %q, want %s and the package", test.ci, test.kind, how, text, test.want)
		}
		if text, _ := os.ReadFile(name); !strings.HasPrefix(string(text), test.report) {
			t.Errorf("CI=%q, no %s: report %q, want %q", test.ci, test.kind, text, test.report)
		}
	}
}

func TestMissingServerNamesItsPackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := findMySQL()
	if err == nil {
		t.Skip("this machine has a MySQL that hiding does not hide")
	}
	for _, part := range []string{"make deps", "mysql-server-core", "ELECTION_TEST_MYSQL_DSN"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
}

func TestSharedServerIsNotTormented(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		s := Shared(t, k)
		for name, torment := range map[string]func(testing.TB){
			"Kill":     s.Kill,
			"Stop":     s.Stop,
			"ReadOnly": func(tb testing.TB) { s.ReadOnly(tb, true) },
		} {
			if how, text := ending(t, torment); how != "fatal" {
				t.Errorf("%s on a shared server: %q %s, want fatal", name, how, text)
			}
		}
	})
}

func TestServerThatIsAlreadyThere(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		there := Start(t, Options{Kind: k})
		dsn := there.AdminConfig().FormatDSN()
		t.Setenv(k.variable(), dsn)
		t.Setenv("ELECTION_TEST_REPORT", "") // this is about no server of the run

		s := Start(t, Options{Kind: k})
		if s.Addr() != there.Addr() {
			t.Errorf("address %s, want %s", s.Addr(), there.Addr())
		}
		mustAsk[int](t, OpenDB(t, s.Database(t).User), "SELECT 1")

		how, text := ending(t, s.Kill)
		if how != "skip" || !strings.Contains(text, k.variable()) {
			t.Errorf("Kill: %q %q, want a skip that names %s", how, text, k.variable())
		}
		how, _ = ending(t, func(tb testing.TB) { StartPair(tb, Options{Kind: k}) })
		if how != "skip" {
			t.Errorf("StartPair: %q, want a skip", how)
		}

		other := MySQL
		if k == MySQL {
			other = MariaDB
		}
		if _, err := external(other, dsn); err == nil {
			t.Errorf("a %s was taken for a %s", k, other)
		}
		if _, err := external(k, "root:hunter2@nonsense"); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v for a bad name, want one without the password", err)
		}
	})
}
