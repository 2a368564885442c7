package mysql

import (
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// FuzzRow reads a row of an election. The columns are separated by tabs, in the order of the
// statement; "NULL" is NULL.
func FuzzRow(f *testing.F) {
	me := strings.Repeat("a", 32)
	for _, row := range []string{
		"", "jobs\ta\t" + me + "\t5\t9\t1\t\t10000000\t3000000\t100\t\t\t\t\t\t\t\t\t\tsome text\t[]\t1700000000000000\t5\t",
		"jobs\tb\tn\t18446744073709551615\t0\t0\tuuid-1\t18446744073709551615\t-1\t-9223372036854775808\tfailed\tx\ty\tdepose\t\t\t\t\t\t\t{\t9223372036854775807\tNULL",
		"jobs\t\t\t1e9\t0x10\t2\t\x00\xff\u202e\t99999999999999999999\t1.5\tNaN\t<script>\n\x1b]0;\t\t\taccept\t\x1b\t\xff",
		"jobs\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL",
	} {
		f.Add(row, true, true, false)
		f.Add(row, false, false, true)
	}
	f.Fuzz(func(t *testing.T, text string, full, found, unclean bool) {
		c := newScan(full)
		fields := strings.Split(text, "\t")
		for i, into := range c.into {
			if i < len(fields) && fields[i] != "NULL" {
				*into.(*sql.RawBytes) = sql.RawBytes(fields[i])
			}
		}
		st := status{server: "server-1", writer: string(c.writer), sameServer: isTrue(c.sameServer), made: parseUint(c.term), count: parseUint(c.count), maxTTL: parseDuration(c.ttl), uncleanRestart: unclean}
		var r row
		if r.Election = "jobs"; found {
			c.lease(&r, "jobs", nil, &candidateCache{})
		}
		r.Holder = clean.Candidate(r.Holder) // as readCandidates does
		r.classify(&st, backend.Nonce(me))
		l := r.Lease
		if l != clean.Lease(l) || l.Version == "" || backend.CheckText("version", l.Version, 600, false) != nil {
			t.Errorf("not clean: %+v", l)
		}
		if l.ObserveFor < 0 || l.ObserveFor > maxDuration || l.TTL > maxDuration || l.Renew > maxDuration || l.Age > maxDuration {
			t.Errorf("durations: %+v", l)
		}
		if found && !l.Vacant() && string(l.Holder.Nonce) != me && l.ObserveFor == 0 && st.maxTTL > 0 {
			t.Errorf("held by another process, and free at once: %+v", l)
		}
		if found && l.Request.Kind != "" && l.Request.Term != l.Term {
			t.Errorf("a request of another term: %+v", l)
		}
		if term, err := backend.NextTerm(max(r.lastTerm, r.Term), !r.sameServer, 0, time.Unix(0, 0)); err == nil && term <= r.Term {
			t.Errorf("term %d after %d", term, r.Term)
		}
		st.now = time.Unix(1, 0)
		if _, _, history := r.afterEnd(backend.Failed, &st); full && len(history) > maxHistory && len(r.history) <= maxHistory {
			t.Errorf("a history of %d bytes does not fit its column", len(history))
		}
	})
}

// FuzzStatus reads the table's own row.
func FuzzStatus(f *testing.F) {
	f.Add(layout, "0 1 1700000000000000", "5", "10000000", "server-1")
	f.Add(layout, "OFF 2 -1", "-1", "18446744073709551615", "")
	f.Add(layout, " \t1", "", "", "\xff")
	f.Add("layout 99\x1b", "0 1 1", "1", "1", "x")
	f.Fuzz(func(t *testing.T, what, own, made, ttl, server string) {
		c := newScan(false)
		c.holder, c.serverState, c.term, c.ttl, c.server = sql.RawBytes(what), sql.RawBytes(own), sql.RawBytes(made), sql.RawBytes(ttl), sql.RawBytes(server)
		st, err := c.status()
		if err != nil {
			if err := backend.CheckText("error", err.Error(), 1000, false); err != nil {
				t.Error(err)
			}
			return
		}
		if what != layout || st.maxTTL < 0 || st.maxTTL > maxDuration {
			t.Errorf("%q was accepted: %+v", what, st)
		}
	})
}

// FuzzHistory reads a history and puts a leadership in front of it.
func FuzzHistory(f *testing.F) {
	for _, text := range []string{"", "[]", "null", "{}", "[{}]", `[{"term":1,"id":"a","from":"2026-01-02T03:04:05Z","to":"2026-01-02T03:04:05Z","end":"released"}]`,
		`[{"from":"0000-01-01T00:00:00-23:59","to":"9999-12-31T23:59:59-23:59"}]`, `[{"id":"\u0000` + strings.Repeat(`\u00e9`, 600) + `"}]`, "[" + strings.Repeat("{},", 50) + "{}]"} {
		f.Add(text, "anna", uint64(7))
		f.Add(text, strings.Repeat("\u2028", 85), uint64(1<<63))
	}
	f.Fuzz(func(t *testing.T, history, id string, term uint64) {
		now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		old := parseHistory(history)
		if len(old) > backend.MaxHistory {
			t.Fatalf("%d leaderships", len(old))
		}
		text := historyText(clean.Remember(old, backend.Leadership{Term: term, ID: id, From: now}, backend.Failed, now, 0))
		back := parseHistory(text)
		if len(text) > maxHistory || !json.Valid([]byte(text)) || len(back) == 0 || back[0].Term != term || !back[0].From.Equal(now) {
			t.Errorf("%q in front of %q gives %q", id, history, text)
		}
		for i, r := range back {
			if r != clean.Leadership(r) || i > 0 && i <= len(old) && r != old[i-1] {
				t.Errorf("leadership %d: %+v", i, r)
			}
		}
	})
}

// FuzzDSN checks that errors about a DSN do not show its password.
func FuzzDSN(f *testing.F) {
	for _, dsn := range []string{"", "/", "u:open-sesame@tcp(h:3306)/d", "u:open-sesame@tcp(h:3306)d", "u:open-sesame@h/d?tls=x", "u:open-sesame@tcp(h)/d?timeout=open-sesame", "open-sesame", "u:open-sesame/@/d?x=%zz", "u:open-sesame@unix(/x)/d?readTimeout=-1s"} {
		f.Add(dsn)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		b := &Backend{}
		_, _, err := b.connectors(Options{DSN: dsn})
		if err == nil {
			return
		}
		if strings.Contains(err.Error(), "open-sesame") {
			t.Errorf("%v shows a password", err)
		}
		if err := backend.CheckText("error", err.Error(), 1000, true); err != nil {
			t.Error(err)
		}
	})
}
