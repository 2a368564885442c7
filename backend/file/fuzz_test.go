//go:build linux || darwin

package file

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// fileTexts are texts for the files of an election, to begin with.
var fileTexts = []string{
	"", "null", "[]", "{", "\xff\x00", `{"layout":1,"election":"jobs","term":0}`, `{"layout":2,"election":"jobs","term":5}`, `{"layout":1,"election":"other","term":5}`,
	`{"layout":1,"election":"jobs","term":5,"heartbeat":"7","holder":null,"end":"released","last_id":"a"}`,
	`{"layout":1,"election":"jobs","term":5,"heartbeat":"7","holder":` + holder + `,"ttl_ns":10000000000,"renew_ns":3000000000,"lock":"LOCK","written":"2026-01-02T03:04:05Z","elected":"2026-01-02T03:04:05Z"}`,
	`{"layout":1,"election":"jobs","term":18446744073709551615,"heartbeat":"0","holder":` + holder + `,"ttl_ns":-1,"renew_ns":9223372036854775807,"lock":"LOCK","written":"0000-01-01T00:00:00-23:59"}`,
	`{"layout":1,"election":"jobs","term":5,"holder":{"id":"\u0000\u202e","nonce":"<script>"},"history":[{},{"from":"9999-12-31T23:59:59-23:59"}]}`,
	`{"term":6,"nonce":"n","heartbeat":"9","ttl_ns":-1,"renew_ns":1,"lock":"LOCK","written":"2026-01-02T03:04:05Z"}`,
	`{"election":"jobs","term":5,"kind":"depose"}`, `{"election":"jobs","term":6,"kind":"\u001b","id":"\u0000","nonce":"\ud800"}`,
}

const holder = `{"id":"a","nonce":"n","address":"h:1","metadata":"text"}`

// FuzzFiles reads arbitrary text as the files of one election. If here, the record and the
// lock line name the lock file of the directory.
func FuzzFiles(f *testing.F) {
	for _, text := range fileTexts {
		f.Add([]byte(text), []byte(text), []byte(text), "", true)
		f.Add([]byte(text), []byte(`{"term":5,"nonce":"n","heartbeat":"9","lock":"LOCK"}`), []byte(`{"election":"jobs","term":5,"kind":"accept","id":"x"}`), "jobs\n", true)
	}
	dir := f.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	b, err := Open(Options{Dir: dir, MaxTTL: time.Minute})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { b.Close() })
	f.Fuzz(func(t *testing.T, record, lock, request []byte, register string, here bool) {
		lockFile, err := os.OpenFile(b.path("jobs", lockSuffix), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer lockFile.Close()
		id, err := identityAt(b.path("jobs", lockSuffix))
		if err != nil {
			t.Fatal(err)
		}
		if here {
			record = []byte(strings.ReplaceAll(string(record), "LOCK", id))
			lock = []byte(strings.ReplaceAll(string(lock), "LOCK", id))
		}
		line := lock
		if len(lock) <= lockLineSize-9 { // a longer text is written without a checksum
			line = fmt.Appendf(nil, "%-*s%08x\n", lockLineSize-9, lock, crc32.ChecksumIEEE([]byte(strings.TrimRight(string(lock), " "))))
		}
		for name, text := range map[string][]byte{
			b.path("jobs", lockSuffix): line, b.path("jobs", recordSuffix): record, b.path("jobs", requestSuffix): request,
			filepath.Join(b.dir, registerFile): []byte(b.header() + "\n" + register),
		} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := b.read("jobs")
		if err != nil {
			if backend.CheckText("error", err.Error(), backend.MaxMetadata, true) != nil {
				t.Errorf("the error cannot be shown safely: %q", err)
			}
			return
		}
		l := b.lease(s)
		if l != clean.Lease(l) || l.Election != "jobs" || l.Version == "" || len(l.Version) > 600 || l.ObserveFor > b.maxTTL {
			t.Errorf("unclean: %+v", l)
		}
		if l.Request.Kind != "" && l.Request.Term != l.Term {
			t.Errorf("a request of another term: %+v", l)
		}
		if r := s.rec; s.hasRecord && r.Term > 0 {
			r.endLeadership(backend.Failed, time.Unix(1, 0), 0)
			if err := b.writeRecord(r, false); err != nil {
				t.Errorf("a record that was read cannot be written: %+v: %v", r, err)
			}
			if back, known, err := b.readRecord("jobs"); !known || err != nil || back.Term != r.Term || len(back.History) > backend.MaxHistory {
				t.Errorf("%+v comes back as %+v, %v", r, back, err)
			}
		}
		list, err := b.List(t.Context(), "", 10)
		if err != nil || len(list) > 1 {
			t.Errorf("the list: %+v, %v", list, err)
		}
	})
}

// FuzzNames checks that every name has a file name of its own.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"jobs", ".", "..", ".a", "a.b", "A", "%41", "a/b", "\x00", "é", strings.Repeat("x", 300), strings.Repeat("/", 90), "%", "%4", "%zz", "~", strings.Repeat("a", 100) + "~" + strings.Repeat("0", 64)} {
		f.Add(name, name)
		f.Add(name, "jobs")
	}
	f.Fuzz(func(t *testing.T, name, other string) {
		file := encode(name)
		if len(file) > longestName || strings.ContainsAny(file, "/\x00") || strings.HasPrefix(file, ".") || strings.ToLower(file) != file {
			t.Errorf("%q becomes the file %q", name, file)
		}
		if other != name && encode(other) == file {
			t.Errorf("%q and %q have the same file", name, other)
		}
		if back, ok := decode(file); !strings.Contains(file, "~") && (!ok || back != name) {
			t.Errorf("%q becomes %q and comes back as %q", name, file, back)
		}
		if back, ok := decode(name); ok && encode(back) != name {
			t.Errorf("the file %q is read as %q, whose file is %q", name, back, encode(back))
		}
	})
}

// FuzzMember reads arbitrary text as a member record.
func FuzzMember(f *testing.F) {
	nonce := strings.Repeat("a", 32)
	for _, text := range []string{"", "{}", `{"id":"a","nonce":"` + nonce + `","ttl_ns":10000000000,"seen":"2026-01-02T03:04:05Z"}`, `{"nonce":"` + nonce + `","id":"\u0000","stage":"\u202e","metadata":"a\nb","ttl_ns":-1}`, `{"nonce":"` + nonce + `","seen":"9999-01-01T00:00:00Z"}`} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	b := &Backend{dir: dir}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, nonce+memberSuffix), text, 0o600); err != nil {
			t.Fatal(err)
		}
		m, ok, err := b.member(backend.Nonce(nonce))
		if err != nil || !ok {
			return
		}
		if m.Candidate != clean.Candidate(m.Candidate) || string(m.Nonce) != nonce || backend.CheckText("stage", m.Stage, 64, false) != nil || m.TTL < 0 || m.Age < 0 {
			t.Errorf("unclean: %+v", m)
		}
	})
}
