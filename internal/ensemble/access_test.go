package ensemble

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
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

func TestRightsAreExplained(t *testing.T) {
	user := Access{User: "app", Password: "secret"}
	for _, x := range []struct {
		what    string
		a       Access
		acl     []zk.ACL
		want    string
		warning bool
	}{
		{"open, as by default", Access{}, zk.WorldACL(zk.PermAll), "world:anyone:cdrwa; anyone who reaches the servers can depose any leader", false},
		{"open, and there is a user", user, zk.WorldACL(zk.PermAll), "the node was created without one", true},
		{"its own", user, zk.DigestACL(zk.PermAll, "app", "secret"), "at /r: digest:app:cdrwa", false},
		{"another password", user, zk.DigestACL(zk.PermAll, "app", "other"), "gives this process nothing, and a member needs cdrw", true},
		{"read alone", Access{}, zk.WorldACL(zk.PermRead), "gives this process r, and a member needs cdrw", true},
		{"of which only the servers know", user, []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=app"}}, "at /r: x509:CN=app:cdrwa", false},
	} {
		x.a.Servers = []string{"localhost"}
		if err := x.a.Check(); err != nil {
			t.Fatal(err)
		}
		text, warning := x.a.explainACL(x.acl, "/r")
		if warning != x.warning || !strings.Contains(text, x.want) {
			t.Errorf("%s: %v %q, want %v and %q", x.what, warning, text, x.warning, x.want)
		}
	}
}
