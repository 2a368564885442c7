package manual

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/lab/testbed"
)

// FuzzAssignment reads arbitrary text as the file in which an operator names the leader.
func FuzzAssignment(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"version":1}`, `{"version":1,"leader":"a"}`, `{"version":2,"leader":"a","elections":{"jobs":"b","":"c"}}`, `{"version":1,"leader":"self"}`,
		`{"version":1,"elections":{"jobs":"self"}}`, `{"version":-1}`, `{"version":1e3}`, `{"version":1152921504606846977}`, `{"version":1}{"version":2}`, `{"version":1} ,`,
		`{"Version":1,"LEADER":"a","leader":"b"}`, `{"version":1,"leader":"\u0000\u202e"}`, "{\"version\":1,\"leader\":\"\xff\"}", `{"version":1,"more":1}`, `{"version":1,"elections":{"a":"b","a":"c"}}`,
	} {
		f.Add([]byte(text))
	}
	file := filepath.Join(f.TempDir(), "leader.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		testbed.NoError(t, os.WriteFile(file, text, 0o600))
		a, err := readFile(file)
		if err != nil {
			if !utf8.ValidString(err.Error()) || backend.CheckText("error", err.Error(), backend.MaxMetadata, true) != nil {
				t.Errorf("the error cannot be shown safely: %q", err)
			}
			return
		}
		if a.Version == 0 || a.Version > maxVersion {
			t.Errorf("version %d was accepted", a.Version)
		}
		for name, id := range a.Elections {
			if backend.CheckName(name) != nil || a.named(name) != id {
				t.Errorf("the file names %q for %q, but named returns %q", id, name, a.named(name))
			}
			checkNamed(t, id)
		}
		checkNamed(t, a.Leader)
		again, err := json.Marshal(a)
		testbed.NoError(t, err)
		testbed.NoError(t, os.WriteFile(file, again, 0o600))
		if back, err := readFile(file); err != nil || !reflect.DeepEqual(back, a) {
			t.Errorf("%+v comes back as %+v, %v", a, back, err)
		}
		// The leases made of it are clean, whatever the id.
		b := &Backend{me: backend.Candidate{ID: "me", Nonce: "n"}, file: file, maxTTL: 1}
		for _, name := range []string{"jobs", "other"} {
			l, _ := b.lease(backend.Lease{Election: name}, a)
			if l != clean.Lease(l) || len(l.Version) > 600 || l.Vacant() && a.named(name) != "" && a.named(name) != "me" {
				t.Errorf("%q is named, and the lease is unclean or vacant: %+v", a.named(name), l)
			}
		}
	})
}

func checkNamed(t *testing.T, id string) {
	t.Helper()
	if id != "" && backend.CheckID(id) != nil || id == Self {
		t.Errorf("%q was accepted as a leader", id)
	}
}

func readFile(path string) (a assignment, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	return parse(text)
}
