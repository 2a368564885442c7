package election

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

// A line is a log record about all elections of one step to which the same has happened: when a store fails a
// process with thousands of elections, or elects it in all of them, that is one event.
type line struct {
	level     slog.Level
	text      string
	attrs     []any // more about it
	reason    Reason
	err       error  // of the first election
	term      uint64 // of the first election; 0: not said
	elections []string
}

func (l *line) same(o *line) bool {
	return l.level == o.level && l.text == o.text && l.reason == o.reason &&
		backend.Class(l.err) == backend.Class(o.err)
}

// say adds a line about one election to those of this step.
func (m *Manager) say(election string, l line) {
	i := slices.IndexFunc(m.lines, func(known line) bool { return known.same(&l) })
	if i < 0 {
		i = len(m.lines)
		m.lines = append(m.lines, l)
	}
	m.lines[i].elections = append(m.lines[i].elections, election)
}

func (m *Manager) writeLines() {
	for _, l := range m.lines {
		attrs := append(l.attrs, "backend", m.name)
		if len(l.elections) > 1 {
			attrs = append(attrs, "elections", len(l.elections), "first", firstNames(l.elections))
		} else {
			attrs = append(attrs, "election", l.elections[0])
			if l.term > 0 {
				attrs = append(attrs, "term", l.term)
			}
		}
		if l.reason != "" {
			attrs = append(attrs, "reason", string(l.reason))
		}
		if l.err != nil {
			attrs = append(attrs, "error", l.err)
		}
		m.log.Log(context.Background(), l.level, l.text, attrs...)
	}
	clear(m.lines) // the names of thousands of elections are freed
	m.lines = m.lines[:0]
}

// fewNames is how many elections a message names.
const fewNames = 5

// firstNames names the first of some elections, quoted.
func firstNames(elections []string) string {
	text := fmt.Sprintf("%q", elections[:min(len(elections), fewNames)])
	return strings.ReplaceAll(text[1:len(text)-1], `" "`, `", "`)
}

// someNames names elections, or says how many there are and names the first.
func someNames(elections []string) string {
	if len(elections) <= fewNames {
		return firstNames(elections)
	}
	return fmt.Sprintf("%d elections, the first are %s", len(elections), firstNames(elections))
}

// wall returns the time of day at a time of the manager's clock.
func (m *Manager) wall(at time.Duration) time.Time { return time.Now().Add(at - m.clock.now()) }

// logBid logs the answer to a bid in the words of older systems, for which operators have searches.
func (m *Manager) logBid(a action) {
	won := a.reason == ReasonElected
	l := line{text: "try acquire leader", attrs: []any{"result", won}, term: a.term, err: a.err}
	if !won {
		l.level = slog.LevelDebug
	}
	m.say(a.e.name, l)
}

// logOutage says that calls to the store fail or are denied. What this process leads it leads on, until the
// last deadline.
func (m *Manager) logOutage(a action) {
	attrs := []any{"backend", m.name, "since", m.wall(a.since), "error", a.err}
	leads, deadline := 0, time.Duration(0)
	for _, e := range m.machine.elections {
		if e.phase == phaseLeading {
			leads, deadline = leads+1, max(deadline, e.trustedUntil)
		}
	}
	if leads > 0 {
		attrs = append(attrs, "leading", leads, "until", m.wall(deadline))
	}
	if a.reason == ReasonDenied {
		m.log.Error("the store denies calls of this process: an operator must act", attrs...)
		return
	}
	m.log.Warn("calls to the store fail: this process cannot be elected until they succeed", attrs...)
}

// logDoubt says until when elections cannot be won because the store may have lost a grant.
func (m *Manager) logDoubt() {
	l := line{level: slog.LevelWarn, attrs: []any{"until", m.wall(m.machine.doubt.until)}}
	l.text = "nobody can be elected for a while, since somebody may still lead: the store is new, " +
		"was restarted or restored, or has failed over, or a record was deleted or edited"
	for _, e := range m.machine.elections {
		if m.machine.doubtful(e) {
			m.say(e.name, l)
		}
	}
}
