package ensemble

import (
	"strings"
	"testing"
)

// FuzzACL parses an ACL entry of a configuration.
func FuzzACL(f *testing.F) {
	for _, text := range []string{"", ":", "::", "world:anyone:r", "digest:app:open-sesame:cdrwa", "digest:app:open-sesame", "ip:::1:rw", "world:anyone:", "x:open-sesame:rx", "\x00:a:r"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseACL(text)
		if err != nil {
			if scheme, _, _ := strings.Cut(text, ":"); strings.Contains(err.Error(), "open-sesame") && !strings.Contains(scheme, "open-sesame") {
				t.Errorf("%v shows a secret", err)
			}
			return
		}
		if a.Scheme == "" || a.Perms == 0 || a.Perms&^31 != 0 || !strings.HasPrefix(text, a.Scheme+":"+a.ID+":") {
			t.Errorf("%q is read as %+v", text, a)
		}
	})
}
