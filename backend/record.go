package backend

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"
)

// EndLeadership closes the present leadership, if there is one: from now on the lease is vacant
// and says who held it last and how that ended, and the leadership is the newest of the
// history. The term stays, and so do a request and the marks of a migration. now is by
// the store's clock. A fresh heartbeat is for the store to give.
func (r *Record) EndLeadership(how End, now time.Time) {
	if r.Vacant() {
		return
	}
	r.History = Remember(r.History, Leadership{Term: r.Term, ID: r.Holder.ID, From: r.Elected}.Close(how, now, r.Lapsed()))
	r.End, r.LastID, r.LastNonce = how, r.Holder.ID, r.Holder.Nonce
	r.Holder, r.TTL, r.Renew, r.ObserveFor, r.Elected = Candidate{}, 0, 0, 0, time.Time{}
}

// Forgotten reports whether the election was retired and nobody has led since. What is
// kept is its last term, so that terms grow though somebody takes it up again. Whoever
// shows elections leaves it out.
func (r Record) Forgotten() bool { return r.Vacant() && r.End == Forgotten }

// Lapsed is how long ago the lease ran out by its age, 0 if it is vacant or has not. It is
// for people, as ages are: it frees nothing.
func (l Lease) Lapsed() time.Duration {
	if l.Vacant() {
		return 0
	}
	return max(0, l.Age-l.TTL)
}

// Since is since when things are as the record says, by the store's clock: when the leadership
// began, or when the last one ended. It is zero if the store does not know, and for people.
func (r Record) Since() time.Time {
	switch {
	case r.Lapsed() > 0:
		return time.Now().Add(-r.Lapsed()).UTC()
	case !r.Vacant():
		return r.Elected
	case len(r.History) > 0 && r.History[0].Term == r.Term:
		return r.History[0].To
	}
	return time.Time{}
}

// Close returns the leadership as it ended: now, by the store's clock, or with its lease if that
// ran out before, though this is recorded later. lapsed is how long ago that was, 0 if it
// did not or if the store does not know. No leadership ends before it began, though the clock
// was set back.
func (r Leadership) Close(how End, now time.Time, lapsed time.Duration) Leadership {
	r.End, r.To = how, now.Add(-lapsed).UTC()
	if r.To.Before(r.From) {
		r.To = r.From
	}
	return r
}

// ElectionList is the text of [Member].Elections: a line for each name. An empty line at
// the end says that there are more than have room.
func ElectionList(names iter.Seq[string]) string {
	var text strings.Builder
	for name := range names {
		if text.Len()+len(name)+2 > MaxElections {
			text.WriteByte('\n')
			break
		}
		text.WriteString(name + "\n")
	}
	return text.String()
}

// Campaigns yields the names in the list of [Member].Elections, and at the end an empty
// name if there are more.
func (m Member) Campaigns() iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(m.Elections) {
			if !yield(strings.TrimSuffix(line, "\n")) {
				return
			}
		}
	}
}

// CampaignsFor reports whether m campaigns for an election or leads it, as far as its list
// tells: true, too, if there are more than it names.
func (m Member) CampaignsFor(election string) bool {
	for name := range m.Campaigns() {
		if name == election || name == "" {
			return true
		}
	}
	return false
}

// Page picks what List or Members returns out of all that a store has: what has keys
// not less than from, in byte order of keys, up to limit. It reorders the slice.
func Page[T any](all []T, from string, limit int, key func(T) string) []T {
	all = slices.DeleteFunc(all, func(v T) bool { return key(v) < from })
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return all[:min(len(all), max(limit, 0))]
}
