package backend

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

// A Record is all that a store keeps about an election.
type Record struct {
	Lease
	Elected time.Time    // when the present leadership began, by the store's clock; zero if vacant
	History []Leadership // past leaderships, newest first, up to [MaxHistory]
}

// MaxHistory is how many past leaderships a record keeps.
const MaxHistory = 8

// A Leadership is an entry of a record's history: a past leadership. Its times are for people.
type Leadership struct {
	Term uint64    `json:"term"`
	ID   string    `json:"id"`
	From time.Time `json:"from"` // by the store's clock, UTC
	To   time.Time `json:"to"`   // the latest moment at which it can have led, as far as the store knows
	End  End       `json:"end"`
}

// A Member is a process that takes part, leader or not.
type Member struct {
	Candidate
	Stage     string        // migration stage, up to 32 bytes, or empty
	Elections string        // its priority, and what it leads or campaigns for, as [ElectionList] makes it
	TTL       time.Duration // how often it announces itself
	Age       time.Duration // how long ago it last did, by the store's clock; 0: the store sees that it lives
}

// Forgotten reports whether an operator retired the election and nobody has led it since. The store keeps its
// last term, so that terms grow if a candidate takes it up again. Programs that show elections leave it out.
func (r Record) Forgotten() bool { return r.Vacant() && r.End == Forgotten }

// Since is when the present leadership began, or when the last one ended, by the store's clock. If
// the lease has expired, it is the time of that, by this machine's clock. It is zero if the store
// does not know. It is for people.
func (r Record) Since() time.Time {
	switch {
	case r.ExpiredFor() > 0:
		return time.Now().Add(-r.ExpiredFor()).UTC()
	case !r.Vacant():
		return r.Elected
	case len(r.History) > 0 && r.History[0].Term == r.Term:
		return r.History[0].To
	}
	return time.Time{}
}

// priorityLine begins the line with a priority. No name of an election has a tab.
const priorityLine = "priority\t"

// ElectionList returns the text of [Member].Elections: a line for the priority, unless it is 0, and
// one for each name. An empty line at the end says that there is no room for all. It is part of the
// contract: a manager writes this text, and Priority and Campaigns read it on every other process.
func ElectionList(priority int, names iter.Seq[string]) string {
	var text strings.Builder
	if priority != 0 {
		fmt.Fprintf(&text, "%s%d\n", priorityLine, priority)
	}
	for name := range names {
		if text.Len()+len(name)+2 > MaxElections {
			text.WriteByte('\n')
			break
		}
		text.WriteString(name + "\n")
	}
	return text.String()
}

// Campaigns yields the names in the list of [Member].Elections, and at last "" if there are more.
func (m Member) Campaigns() iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(m.Elections) {
			if strings.HasPrefix(line, priorityLine) {
				continue
			}
			if !yield(strings.TrimSuffix(line, "\n")) {
				return
			}
		}
	}
}

// Priority returns the priority in the list of [Member].Elections, or 0 if it has none.
func (m Member) Priority() int {
	line, _, _ := strings.Cut(m.Elections, "\n")
	text, ok := strings.CutPrefix(line, priorityLine)
	priority, err := strconv.ParseUint(text, 10, 31)
	if !ok || err != nil {
		return 0
	}
	return int(priority)
}

// CampaignsFor reports whether m campaigns for an election or leads it. It is also true if
// the list has no room for all elections.
func (m Member) CampaignsFor(election string) bool {
	for name := range m.Campaigns() {
		if name == election || name == "" {
			return true
		}
	}
	return false
}
