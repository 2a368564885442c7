package mysql

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/testbed"
)

// decodeInto fills a struct by field names, as a configuration does.
func decodeInto(into any, values map[string]any) error {
	v := reflect.ValueOf(into).Elem()
	for name, value := range values {
		f := v.FieldByName(name)
		if !f.IsValid() {
			return fmt.Errorf("unknown key %s", name)
		}
		f.Set(reflect.ValueOf(value))
	}
	return nil
}

func TestNamesThatLookAlikeAreDifferentElections(t *testing.T) {
	names := []string{"a", "A", "á", "a\u0301", "a ", " a", "ä", "ae", "ß", "ss", "😀", "😁", "a'b", `a\`, `a"b`, "%", "_", "?", "`", "NULL", "--", "a;b",
		strings.Repeat("x", 255), strings.Repeat("x", 254) + "y", strings.Repeat("é", 127), strings.Repeat("x", 128)}
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		a, b := l.node(t, "host"), l.node(t, "HOST ")
		terms := map[string]backend.Lease{}
		for i, name := range names {
			n := a
			if i%2 == 1 {
				n = b
			}
			terms[name] = n.lead(name, 10*time.Second)
		}
		for i, name := range names {
			got, want := a.observe(name), terms[name]
			if !sameLease(got, want) || got.Holder != want.Holder {
				t.Errorf("%q has become another election:\n%+v\n%+v", name, got, want)
			}
			n, other := a, b
			if i%2 == 1 {
				n, other = b, a
			}
			n.mustRenew(want)
			if answer, _ := other.renew(want); answer.Outcome == backend.Granted {
				// the same lease, with another nonce
				t.Errorf("%q: a renewal was granted to a process that does not hold it", name)
			}
		}
		if n := l.number(t, "SELECT COUNT(*) FROM election_lease WHERE name <> ''"); n != int64(len(names)) {
			t.Errorf("%d rows for %d names", n, len(names))
		}
	})
}

func TestHostileRowsAreShownHarmlessly(t *testing.T) {
	hostile := "<script>\x1b]0;x\x07\u202e\xff" + strings.Repeat("A", 100)
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n := l.node(t, "n")
		histories := []string{`[{"term":1,"id":"\u202e\u001b","from":"2020-01-01T00:00:00Z","to":"2020-01-01T00:00:01Z","end":"x"}]`, `{`, strings.Repeat("[", 4000), `[{"term":-1}]`, `[null]`, "\xff\xfe", `[` + strings.Repeat(`{},`, 1000) + `{}]`}
		for i, history := range histories {
			name := fmt.Sprint("e", i)
			lease := n.lead(name, time.Second)
			if _, err := l.admin.Exec(`UPDATE election_lease SET holder = ?, nonce = ?, address = ?, metadata = ?, ttl_us = 18446744073709551615, renew_us = 18446744073709551615,
				ended = 'zzz', last_id = ?, request = 'zzz', request_id = ?, request_nonce = ?, server = ?, elected_at = '9999-12-31 23:59:59', history = ? WHERE name = ?`,
				hostile, hostile[:60], hostile, hostile, hostile, hostile, hostile[:60], hostile, history, name); err != nil {
				t.Fatal(err)
			}
			got := n.observe(name)
			if clean := clean.Lease(got); clean != got || got.Holder.ID == hostile {
				t.Errorf("a planted row is not cleaned: %+v", got)
			}
			if got.TTL < 0 || got.Renew < 0 || got.ObserveFor <= 0 || len(got.Version) > 600 || strings.ContainsAny(got.Version, "\x1b\u202e") || !utf8.ValidString(got.Version) {
				t.Errorf("a planted row: %+v", got)
			}
			if answer, err := n.renew(lease); err != nil || answer.Outcome != backend.Refused {
				t.Errorf("a lease whose row was overwritten is lost: %+v, %v", answer, err)
			}
			ctx, cancel := n.ctx()
			defer cancel()
			records, err := n.List(ctx, name, 1)
			if err != nil || len(records) != 1 || len(records[0].History) > backend.MaxHistory {
				t.Errorf("List of a planted row: %+v, %v", records, err)
			}
			for _, r := range records[0].History {
				if clean.Text(r.ID, backend.MaxID, false) != r.ID {
					t.Errorf("a planted history is not cleaned: %+v", r)
				}
			}
			if answer, err := n.bid(n.observe(name), time.Second); err != nil || answer.Outcome != backend.Granted {
				t.Errorf("a planted row can be taken over after it was observed: %+v, %v", answer, err)
			}
		}
		if _, err := l.admin.Exec(`INSERT INTO election_member VALUES (?, ?, ?, ?, ?, ?, 18446744073709551615, UTC_TIMESTAMP(6))`, hostile[:60], hostile, hostile, hostile, hostile[:30], hostile); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := n.ctx()
		defer cancel()
		members, err := n.Members(ctx, "", 10)
		if err != nil || len(members) != 1 || clean.Member(members[0]) != members[0] {
			t.Errorf("a planted member is not cleaned: %+v, %v", members, err)
		}
	})
}
