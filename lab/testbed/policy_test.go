package testbed

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A fake is a test that records how it ended.
type fake struct {
	testing.TB
	name              string
	ended, text, attr string
}

func (f *fake) Helper()                           {}
func (f *fake) Name() string                      { return f.name }
func (f *fake) Attr(key, value string)            { f.attr = key + " " + value }
func (f *fake) Skip(args ...any)                  { f.end("skip", "%s", args) }
func (f *fake) Skipf(format string, args ...any)  { f.end("skip", format, args) }
func (f *fake) Fatalf(format string, args ...any) { f.end("fatal", format, args) }

func (f *fake) end(how, format string, args []any) {
	f.ended, f.text = how, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// ending runs do as a test and returns how it ended: "skip", "fatal" or "".
func ending(t *testing.T, do func(tb testing.TB)) (f *fake, text string) {
	t.Helper()
	return endingOf(t, t.Name(), do)
}

// endingOf is ending for a test of the given name.
func endingOf(t *testing.T, name string, do func(tb testing.TB)) (f *fake, text string) {
	t.Helper()
	f = &fake{TB: t, name: name}
	var wg sync.WaitGroup
	wg.Go(func() { do(f) })
	wg.Wait()
	return f, f.text
}

func TestMissingServers(t *testing.T) {
	for _, test := range []struct {
		ci   string
		kind Kind
		want string
	}{
		{"", MariaDB, "skip"},
		{"", MySQL, "skip"},
		{"true", MariaDB, "fatal"},
		{"true", MySQL, "skip"},
	} {
		if testing.Short() { // the fast tier skips missing servers
			test.want = "skip"
		}
		t.Setenv("CI", test.ci)
		f, text := ending(t, func(tb testing.TB) {
			unavailable(tb, &missing{test.kind, string(test.kind), "Debian: some-package"})
		})
		if f.ended != test.want || !strings.Contains(text, "some-package") {
			t.Errorf("CI=%q, no %s: %s %q, want %s and the package", test.ci, test.kind, f.ended, text, test.want)
		}
		if f.attr != "missing "+string(test.kind) {
			t.Errorf("CI=%q, no %s: the attribute for the table is %q", test.ci, test.kind, f.attr)
		}
	}
}

func TestFastTierHasServersForTheContractOnly(t *testing.T) {
	for _, test := range []struct {
		name string
		need func(testing.TB)
		fast bool
	}{
		{"TestConformance", contract, true},
		{"TestConformance/cases/A1", contract, true},
		{"TestConformanceInRealTime", contract, false},
		{"TestRights", contract, false},
		{"TestConformance", func(tb testing.TB) { Full(tb, "takes long") }, false},
	} {
		f, text := endingOf(t, test.name, test.need)
		want := ""
		if testing.Short() && !test.fast {
			want = "skip"
		}
		if f.ended != want || want != "" && !strings.HasPrefix(text, ForVerify) {
			t.Errorf("short=%v: %s ends by %q %q, want %q", testing.Short(), test.name, f.ended, text, want)
		}
	}
}

func TestMissingServerNamesItsPackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := attempt(findMySQL)
	if err == nil {
		t.Skip("this machine has a MySQL outside of PATH and of the cache")
	}
	for _, part := range []string{"make deps", "mysql-server-core"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
}

func TestSharedServersRefuseFaults(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		s := Shared(t, k)
		for name, fault := range map[string]func(testing.TB){
			"Kill":     s.Kill,
			"Stop":     s.Stop,
			"ReadOnly": func(tb testing.TB) { s.ReadOnly(tb, true) },
		} {
			if f, text := ending(t, fault); f.ended != "fatal" {
				t.Errorf("%s on a shared server: %q %s, want fatal", name, f.ended, text)
			}
		}
	})
}
