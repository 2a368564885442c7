package mysql

import (
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/internal/testbed"
)

// On real servers, with the rights of an ordinary member.
func TestInspectReportsWhatLeasesDependOn(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		if err := CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""); err != nil {
			t.Fatal(err)
		}
		b, err := Open(Options{Config: d.User})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		list, err := b.Inspect(t.Context(), 15*time.Second, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, f := range list {
			text += f.What + ": " + f.Text + "\n"
		}
		for _, want := range []string{"server: ", "durability: ", "replication: ", "clock: ", "greatest TTL: 15s"} {
			if !strings.Contains(text, want) {
				t.Errorf("no diagnostic of %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "every bid is refused") {
			t.Errorf("the greatest TTL was refused:\n%s", text)
		}
		list, err = b.Inspect(t.Context(), 16*time.Second, 5*time.Second)
		if last := list[len(list)-1]; err != nil || !last.Warning || !last.Fatal || !strings.Contains(last.Text, "TTL is 16s, the greatest allowed") {
			t.Errorf("a TTL that is too long: %v, %v", list, err)
		}
	})
}

func TestInspectWarnsOfWeakSettings(t *testing.T) {
	sound := map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "1", "version": "9.1.0"}
	for _, x := range []struct {
		name, value string
		warning     bool
	}{
		{"version", "8.0", false},
		{"innodb_flush_log_at_trx_commit", "2", true},
		{"sync_binlog", "0", true},
		{"log_bin", "OFF", false},
		{"wsrep_on", "ON", true},
		{"rpl_semi_sync_source_enabled", "ON", true}, // without AFTER_SYNC
	} {
		vars := map[string]string{x.name: x.value}
		for name, value := range sound {
			if name != x.name {
				vars[name] = value
			}
		}
		warned := false
		for _, f := range diagnostics(vars) {
			warned = warned || f.Warning
		}
		if warned != x.warning {
			t.Errorf("%s=%s: warning %v, expected %v", x.name, x.value, warned, x.warning)
		}
	}
}

func TestInspectCleansTextOfTheServer(t *testing.T) {
	hostile := "9.1.0\x1b[2J\n" + strings.Repeat("9", 10_000)
	for _, name := range []string{"version", "version_comment", "server_uuid", "innodb_flush_log_at_trx_commit", "max_connections"} {
		for _, f := range diagnostics(map[string]string{name: hostile}) {
			if strings.ContainsAny(f.Text, "\x1b") || len(f.Text) > 1000 {
				t.Errorf("%s is shown as %q", name, f.Text)
			}
		}
	}
}
