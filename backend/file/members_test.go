//go:build linux || darwin

package file_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// Only files of processes that ended long ago are removed.
func TestFilesOfDeadMembersAreRemoved(t *testing.T) {
	dir := newDir(t)
	long := time.Now().Add(-3 * time.Hour).UTC()
	old, young := backend.NewNonce(), backend.NewNonce()
	write := func(nonce string, seen time.Time) {
		text := fmt.Sprintf(`{"id":"x","nonce":%q,"ttl_ns":1000000000,"seen":%q}`, nonce, seen.Format(time.RFC3339))
		if err := os.WriteFile(dir+"/"+nonce+".member", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(string(old), long)
	write(string(young), time.Now().UTC())
	for _, name := range []string{".tmp-old", ".tmp-new", "notes.txt"} {
		if err := os.WriteFile(dir+"/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".tmp-old", "notes.txt"} {
		if err := os.Chtimes(dir+"/"+name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, dir, "a")
	if err := a.Announce(t.Context(), backend.Member{Candidate: a.me, TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{string(old + ".member"): false, string(young + ".member"): true, ".tmp-old": false, ".tmp-new": true, "notes.txt": true, string(a.me.Nonce + ".member"): true} {
		if _, err := os.Stat(dir + "/" + name); (err == nil) != there {
			t.Errorf("%s: expected to exist: %v, got %v", name, there, err)
		}
	}
}
