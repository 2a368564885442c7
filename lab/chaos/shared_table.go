//go:build linux

package chaos

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/mysqltable"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// OtherLed is the kind of a line about another program, without this module, that rightly believed that it led.
const OtherLed conformance.EntryKind = "other led"

// Faults in which another program elects by the table, too.
const (
	otherBeside    = "other program, leave"
	otherTakesOver = "other program, freeze"
)

// otherThreshold is the time after which the other program takes over a row that was not renewed.
const otherThreshold = 3 * time.Second

// tableSite is a MariaDB with the table of other programs. Its clock is not stepped: they decide by it.
func tableSite(t testing.TB) *Site {
	s := testbed.Start(t, testbed.Options{Kind: testbed.MariaDB})
	d := s.Database(t)
	makeTables(t, d, mysqltable.DefaultPrefix)
	d.Exec(t, "CREATE TABLE leader_election (name varchar(128) PRIMARY KEY, node varchar(128) NOT NULL, last_seen_active timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)")
	how := func(proxies []*testbed.Proxy) []string {
		return environ("mysqltable", "DSN", proxies[0].Config(d.User).FormatDSN(), "MAX_TTL", greatestTTL.String(),
			"LAYOUT", "last_seen_active", "THRESHOLD", otherThreshold.String())
	}
	change := func(statement string) fault {
		return edit(func(r *run, election string) { s.Exec(r, fmt.Sprintf(statement, d.Name, election)) })
	}
	return newSite(t, "mysqltable", otherThreshold+2*time.Second, []string{s.Addr()}, how, networkFaults(), serverFaults(s.Daemon), sqlFaults(s, d), map[string]fault{
		"row deleted": change("DELETE FROM %s.leader_election WHERE name = '%s'"),
		"row edited":  change("UPDATE %s.leader_election SET node = 'host-7' WHERE name = '%s'"),

		// One member after the other ends. The other program leads at last, and they start again beside it.
		otherBeside: besideOther(d, func(r *run) {
			for _, c := range r.current {
				r.wait(0, ttl/4)
				c.terminate(r)
			}
			r.wait(ttl/8, ttl/4)
			r.restartEnded()
			r.wait(ttl/2, 2*ttl)
		}),
		// All members are stopped for longer than the other program waits.
		otherTakesOver: besideOther(d, func(r *run) {
			for _, c := range r.current {
				c.stop(r)
			}
			r.wait(otherThreshold, otherThreshold+2*ttl)
			for _, c := range r.current {
				c.resume()
			}
			r.wait(0, ttl)
		}),
	})
}

// An other is a program that elects by the table alone, as such programs do: by one statement in a loop.
type other struct {
	db   *sql.DB
	name string
	run  *run
	led  map[string]*conformance.Entry // by election: the leadership that goes on
	safe map[string]time.Duration      // until when nobody may take the row that it wrote last
}

// besideOther injects a fault while another program elects, too. It counts if that has led. The program ends without
// giving anything back.
func besideOther(d *testbed.Database, f func(r *run)) fault {
	return func(r *run) {
		o := &other{
			db: testbed.OpenDB(r, d.Admin), name: fmt.Sprintf("other-%d", len(r.history.Bands)), run: r,
			led: map[string]*conformance.Entry{}, safe: map[string]time.Duration{},
		}
		before, stop, done := len(r.history.Lines), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				for _, election := range elections {
					o.elect(election)
				}
				select {
				case <-tick.C:
				case <-stop:
					return
				}
			}
		}()
		r.inject(d.Name, byTarget, func() {
			f(r)
			close(stop)
			<-done
			for _, election := range elections {
				o.note(election, Now())
			}
		}).hit = len(r.history.Lines) > before
	}
}

const (
	otherWrites = `INSERT IGNORE INTO leader_election (name, node, last_seen_active) VALUES (?, ?, now()) ON DUPLICATE KEY UPDATE
 node = if(last_seen_active < date_sub(now(), INTERVAL ? SECOND), values(node), node), last_seen_active = if(node = values(node), values(last_seen_active), last_seen_active)`
	otherReads = `SELECT node FROM leader_election WHERE name = ?`
)

// elect runs the statement once, and reads the row. A row is safe for the threshold, counted from before it was written.
func (o *other) elect(election string) {
	began := Now()
	_, err := o.db.ExecContext(o.run.Context(), otherWrites, election, o.name, int64(otherThreshold/time.Second))
	var node string
	if err == nil {
		err = o.db.QueryRowContext(o.run.Context(), otherReads, election).Scan(&node)
	}
	if err != nil || node != o.name {
		o.note(election, began)
		return
	}

	now := Now()
	if o.safe[election] <= now {
		o.note(election, began)
	}
	if o.led[election] == nil && began+otherThreshold > now {
		o.led[election] = &conformance.Entry{Process: o.name, Election: election, Kind: OtherLed, From: now}
	}
	o.safe[election] = began + otherThreshold
}

// note notes that a leadership ends, at this time or when the row was safe no longer.
func (o *other) note(election string, at time.Duration) {
	if e := o.led[election]; e != nil {
		if e.To = min(at, o.safe[election]); e.To > e.From {
			o.run.history.Lines = append(o.run.history.Lines, Line{Entry: *e})
		}
	}
	delete(o.led, election)
}

// checkOthers checks that no member believes that it leads while another program does.
func checkOthers(h *History) error {
	for _, o := range h.Lines {
		if o.Kind != OtherLed {
			continue
		}
		for _, b := range h.Beliefs(o.Election) {
			if b.From < o.To && o.From < b.To {
				return fmt.Errorf("S1 (no member leads while another program does): %v; and %v", b.Entry, o.Entry)
			}
		}
	}
	return nil
}
