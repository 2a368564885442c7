package docs_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/figures"
	"github.com/go-election/go-election/lab/testbed"
)

// These tests run the blocks of "Your own program" in their order and unchanged, except for the server's address and the
// names of database and account. The module is this tree; the test needs no network.
func TestTheReadmeProgramIsElectedOnMySQL(t *testing.T) {
	goCommand := goWithThisModule(t)
	for _, page := range readmes {
		t.Run(filepath.Base(page), func(t *testing.T) {
			testbed.Each(t, func(t *testing.T, k testbed.Kind) {
				t.Parallel()
				s := testbed.Shared(t, k)
				d := s.Database(t)
				suffix := string(backend.NewNonce()[:8])
				host := regexp.MustCompile(`'@'([^']*)'`).FindStringSubmatch(grants(t, d))[1]
				adapt := strings.NewReplacer(
					"'app'@'%'", "'app"+suffix+"'@'"+host+"'", "DATABASE app", "DATABASE app"+suffix, " app.", " app"+suffix+".",
					"app:secret@tcp(127.0.0.1:3306)/app", fmt.Sprintf("app%s:secret@%s(%s)/app%[1]s", suffix, d.User.Net, d.User.Addr)).Replace
				t.Cleanup(func() { s.Exec(t, "DROP USER 'app"+suffix+"'@'"+host+"'", "DROP DATABASE app"+suffix) })
				s.Exec(t, split(adapt(block(t, page, "mysql-account")))...)
				isElected(t, goCommand, page, adapt(block(t, page, "mysql-configuration")), block(t, page, "program"))
			})
		})
	}
}

func TestTheReadmeProgramIsElectedOnPostgreSQL(t *testing.T) {
	goCommand := goWithThisModule(t)
	for _, page := range readmes {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			s := testbed.SharedPostgres(t)
			suffix := string(backend.NewNonce()[:8])
			admin, err := url.Parse(s.AdminDSN("app" + suffix))
			testbed.NoError(t, err)
			dsn := *admin
			dsn.User = url.UserPassword("app"+suffix, "secret")
			adapt := strings.NewReplacer("ROLE app", "ROLE app"+suffix, "DATABASE app", "DATABASE app"+suffix, "OWNER app", "OWNER app"+suffix,
				"postgres://app:secret@127.0.0.1:5432/app", dsn.String()).Replace
			s.Exec(t, split(adapt(block(t, page, "postgres-account")))...)
			t.Cleanup(func() { s.Exec(t, "DROP DATABASE app"+suffix+" WITH (FORCE)", "DROP ROLE app"+suffix) })
			program := strings.Replace(block(t, page, "program"), "backend/mysql", "backend/postgres", 1)
			isElected(t, goCommand, page, adapt(block(t, page, "postgres-configuration")), program)
		})
	}
}

var readmes = []string{"../README.md", "../README.zh-CN.md"}

// isElected builds the program of a page, and runs it in several terminals as the page says.
func isElected(t *testing.T, goCommand, page, configuration, program string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "nightly")
	write(t, filepath.Join(dir, "election.yaml"), configuration, 0o600)
	write(t, filepath.Join(dir, "main.go"), program, 0o600)
	build := exec.CommandContext(t.Context(), "sh", "-exc", block(t, page, "build"))
	build.Dir, build.Env = dir, offline(goCommand)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}

	run := func() *terminal { return openTerminal(t, dir, block(t, page, "run")) }
	one, two := run(), run()
	first, second := one, two
	testbed.Eventually(t, patience, "one of two programs leads", func() error {
		if !first.leads() {
			first, second = second, first
			return fmt.Errorf("they say:\n%s\n%s", one.text(), two.text())
		}
		return nil
	})
	first.Process.Kill()
	second.mustLead("after kill -9 of the leader")
	third := run()
	third.mustSay("elected") // it has seen the leader
	second.Process.Signal(os.Interrupt)
	third.mustLead("after ctrl-c at the leader")
	if err := second.end(); err != nil {
		t.Errorf("after ctrl-c: %v:\n%s", err, second.text())
	}
}

// goWithThisModule returns a directory with a "go" command that takes this tree for the module's latest version.
func goWithThisModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	testbed.NoError(t, err)
	program, err := exec.LookPath("go")
	testbed.NoError(t, err)
	if out, err := exec.Command(program, "build", "-o", filepath.Join(dir, "elect"), "../cmd/elect").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	downloadWhatItNeeds(t, root)
	write(t, filepath.Join(dir, "go"), fmt.Sprintf(`#!/bin/sh
case "$*" in
"mod init "*) '%[1]s' "$@" && exec '%[1]s' mod edit -replace=github.com/go-election/go-election='%[2]s' ;;
"run github.com/go-election/go-election/cmd/elect@latest "*) shift 2 && exec '%[3]s/elect' "$@" ;;
esac
exec '%[1]s' "$@"
`, program, root, dir), 0o700)
	return dir
}

// downloadWhatItNeeds downloads the modules that a program with this one needs. There is no version of this module to
// be found, so the programs of the pages are built without the network.
func downloadWhatItNeeds(t *testing.T, root string) {
	t.Helper()
	const module = "github.com/go-election/go-election"
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), "package main\n\nimport _ \""+module+"/backend/all\"\n\nfunc main() {}\n", 0o600)
	for _, args := range [][]string{
		{"mod", "init", "example.com/needs"},
		{"mod", "edit", "-replace=" + module + "=" + root, "-require=" + module + "@v0.0.0"},
		{"mod", "tidy"},
	} {
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
}

// offline returns the environment of a shell that finds this "go" first and uses no network.
func offline(bin string) []string {
	return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=", "GOWORK=off")
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	testbed.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), mode)))
}

// A terminal runs the program and keeps its output.
type terminal struct {
	*exec.Cmd
	t     *testing.T
	log   string
	ended chan error
}

func openTerminal(t *testing.T, dir, line string) *terminal {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "terminal")
	testbed.NoError(t, err)
	defer out.Close()
	x := &terminal{exec.Command("sh", "-c", "exec "+line), t, out.Name(), make(chan error, 1)}
	x.Dir, x.Stdout, x.Stderr = dir, out, out
	testbed.NoError(t, x.Start())
	done := make(chan struct{})
	go func() { x.ended <- x.Wait(); close(done) }()
	t.Cleanup(func() { x.Process.Kill(); <-done })
	return x
}

func (x *terminal) text() string {
	text, err := os.ReadFile(x.log)
	if err != nil {
		x.t.Error(err)
	}
	return string(text)
}

func (x *terminal) leads() bool { return strings.Contains(x.text(), "I lead in term") }

func (x *terminal) mustLead(when string) {
	x.t.Helper()
	x.t.Log(when)
	x.mustSay("I lead in term")
}

func (x *terminal) mustSay(what string) {
	x.t.Helper()
	testbed.Eventually(x.t, patience, fmt.Sprintf("the program says %q", what), func() error {
		if !strings.Contains(x.text(), what) {
			return fmt.Errorf("it says:\n%s", x.text())
		}
		return nil
	})
}

func (x *terminal) end() error {
	select {
	case err := <-x.ended:
		return err
	case <-time.After(patience):
		return errors.New("the program still runs")
	}
}

// README's figures are those of docs/bench.md and docs/guard.md, rounded: in the table for each store that was measured,
// and in the paragraph "Figures".
func TestTheReadmesFiguresAreMeasured(t *testing.T) {
	rows, err := figures.Read(pages(t)["bench.md"], pages(t)["guard.md"])
	testbed.NoError(t, err)
	short := func(d time.Duration) string {
		if d < time.Second {
			return fmt.Sprintf("%.0f ms", float64(d)/1e6)
		}
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	measured := map[string]figures.Row{}
	var crashed, asked []time.Duration
	var requests []float64
	for _, r := range rows {
		if !r.Ours {
			continue
		}
		store, _, _ := strings.Cut(strings.ToLower(r.Store), " ")
		if measured[store] = r; store == "file" { // the kernel frees the lease
			continue
		}
		crashed, asked = append(crashed, r.Crashed.Median), append(asked, r.Asked.Median)
		if n, ok := r.Requests[1000]; ok {
			requests = append(requests, n)
		}
	}
	names := map[string]string{"postgres": "postgresql"}
	table := regexp.MustCompile("(?m)^\\| \\[`(\\w+)`\\][^|]*\\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\|")
	fleet := regexp.MustCompile(`(?m)^\| (\S+) [^|]*\| go-election \| 3\+3 \| [^|]* \| ([^,|]*),`)
	know := map[string]string{}
	for _, m := range fleet.FindAllStringSubmatch(pages(t)["bench.md"], -1) {
		d, err := time.ParseDuration(m[2])
		testbed.NoError(t, err)
		know[strings.ToLower(m[1])] = short(max(d, time.Millisecond))
	}
	know["mysql"] = know["mariadb"]
	said := []string{
		short(slices.Min(crashed)), short(slices.Max(crashed)), short(slices.Min(asked)), short(slices.Max(asked)),
		fmt.Sprint(slices.Min(requests)), fmt.Sprint(slices.Max(requests)),
	}
	for _, page := range readmes {
		all := table.FindAllStringSubmatch(pages(t)[page], -1)
		found := 0
		for _, m := range all {
			r, ok := measured[cmp.Or(names[m[1]], m[1])]
			if !ok {
				if regexp.MustCompile(`(?m)^[\d.]+ m?s`).MatchString(m[2] + "\n" + m[3] + "\n" + m[4]) {
					t.Errorf("%s has figures for %s, which were not measured: %s, %s, %s", page, m[1], m[2], m[3], m[4])
				}
				continue
			}
			found++
			if want := short(r.Crashed.Median) + ", " + short(r.Crashed.Worst); m[2] != want {
				t.Errorf("%s says %q of a crash on %s, docs/guard.md %s", page, m[2], m[1], want)
			}
			guarded := r.Guarded
			if m[1] == "mysql" {
				guarded = measured["mariadb"].Guarded
			}
			if want := short(guarded.Median) + ", " + short(guarded.Worst); m[3] != want && guarded != (figures.Gap{}) {
				t.Errorf("%s says %q of a crash with a guard on %s, docs/guard.md %s", page, m[3], m[1], want)
			}
			if want := short(r.Asked.Median); m[4] != want {
				t.Errorf("%s says %q of a resignation on %s, docs/bench.md %s", page, m[4], m[1], want)
			}
			if want := cmp.Or(know[cmp.Or(names[m[1]], m[1])], "–"); m[5] != want {
				t.Errorf("%s says %q of when others know on %s, docs/bench.md %s", page, m[5], m[1], want)
			}
		}
		if found < 6 {
			t.Errorf("%s has figures for %d stores", page, found)
		}
		paragraph := regexp.MustCompile(`(?s)\*\*(?:Figures|数字)\*\*.*?\n\n`).FindString(pages(t)[page])
		for _, figure := range said {
			if !strings.Contains(paragraph, figure) {
				t.Errorf("the figures in %s do not name %s:\n%s", page, figure, paragraph)
			}
		}
	}
}
