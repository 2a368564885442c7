package leasetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

func listed(l *lab) {
	names := []string{"a", "A", "a b", "a/b", "a%2Fb", "á", "a\"'`", "~", "0", "z/", "é€𝄞"}
	names = append(names, strings.Repeat("n", backend.MaxName))
	for _, name := range names {
		l.created(name, 1)
	}
	slices.Sort(names)
	var got []string
	for from := ""; ; from = got[len(got)-1] + "\x00" {
		v, err := l.d.List(l.ctx, lease.Records, from, 5)
		l.Must(err == nil && len(v.Items) <= 5, "a page of 5: %d items, %v", len(v.Items), err)
		for _, it := range v.Items {
			r, ok := it.Value.(*lease.Record)
			ok = ok && r.Election == it.Name && it.Kind == lease.Records
			l.Want(ok && !it.Edited, "item %+v in a list", it)
			got = append(got, it.Name)
		}
		if len(v.Items) < 5 {
			break
		}
	}
	l.Want(slices.Equal(got, names), "listed %q, want %q", got, names)
	v, err := l.d.List(l.ctx, lease.Sessions, "", 5)
	l.Want(err == nil && len(v.Items) == 0, "there are sessions: %v, %v", v.Items, err)
}

// aged waits until an item is older, as it is read and as it is listed. A driver that says of each item that
// it was written just now makes the leader of a lease that nobody renews look alive.
func aged(l *lab) {
	began := time.Now()
	l.created("a", 1)
	for {
		v, err := l.d.List(l.ctx, lease.Records, "", 1)
		l.Must(err == nil && len(v.Items) == 1, "a list of one record: %+v, %v", v.Items, err)
		read, listed, since := l.item(key("a")).Age, v.Items[0].Age, time.Since(began)
		older := read != 0 && listed != 0
		l.Must(max(read, listed) <= since+time.Second && (older || since <= 3*time.Second),
			"an item was written %v ago, and its age is read as %v and listed as %v", since, read, listed)
		if older {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// lookAlikes writes records whose names some collation takes for one. If each waited for the others, that
// would take too long.
func lookAlikes(l *lab) {
	pairs := [4][2]string{{"a", "A"}, {"e", "é"}, {"\u00e9", "e\u0301"}, {"s", "s\u200d"}}
	var keys []lease.Key
	for i := range backend.MaxName - 8 {
		name := ""
		for bit := range 8 {
			name += pairs[bit%4][i>>bit&1]
		}
		keys = append(keys, key(name), key("b"+strings.Repeat(" ", i)))
	}
	for term := range uint64(2) {
		changes := make([]lease.Change, len(keys))
		for i, it := range l.read(l.d, keys...).Items {
			changes[i] = inTerm(it, term)
		}
		for i, r := range l.write(changes...).Results {
			l.Must(r.Outcome == backend.Granted, "%q: %v", keys[i].Name, r.Outcome)
		}
	}
	for _, it := range l.read(l.d, keys...).Items {
		r, _ := it.Value.(*lease.Record)
		l.Must(r != nil && r.Election == it.Name && r.Term == 1, "%q is read as %+v", it.Name, it)
	}
}

func counted(l *lab) {
	for n := range 3 {
		l.counts(n, key("r0"), meta)
		l.created(fmt.Sprint("r", n), 1)
	}
	m, s := &lease.Meta{Layout: 1}, &lease.Session{Nonce: "0123"}
	l.put(backend.Granted, "a meta item and a session", together(over(none(meta), m), over(none(session), s)))
	l.put(backend.Granted, "a deletion", over(l.item(key("r1")), nil))
	l.counts(2, meta)
}

// counts fails the test unless a reading says that there are n records, and returns it.
func (l *lab) counts(n int, keys ...lease.Key) lease.View {
	l.Helper()
	v := l.read(l.d, keys...)
	l.Want(v.Records == int64(n), "%d records are counted as %d", n, v.Records)
	return v
}

func largest(l *lab) {
	limits := l.d.Limits()
	l.Want(limits.Batch >= 4 && limits.MaxValue >= 64<<10,
		"%+v; want Batch of 4 and MaxValue of 64 KiB at least", limits)
	l.Want(0 < limits.MinTTL && limits.MinTTL <= limits.MaxTTL, "%+v; want 0 < MinTTL <= MaxTTL", limits)

	var c lease.Change
	for n := range limits.Batch {
		big := record(fmt.Sprint("b", n), 1)
		big.Metadata = strings.Repeat("m", backend.MaxMetadata)
		big.Address = strings.Repeat("a", backend.MaxAddress)
		c = together(c, over(none(key(big.Election)), big))
	}
	l.put(backend.Granted, fmt.Sprintf("a change of %d puts", limits.Batch), c)
	other := lease.Key{Kind: lease.Sessions, Name: "checked"}
	checked := over(none(other), &lease.Session{Nonce: "checked", At: time.Now().UTC()})
	for n := range max(limits.Batch-1, limits.Checks) {
		checked.Check = append(checked.Check, none(key(fmt.Sprint("none", n))))
	}
	l.put(backend.Granted, fmt.Sprintf("a session with %d checks", len(checked.Check)), checked)

	s := &lease.Session{ID: "x", Nonce: "0123", Apart: map[string]lease.Heartbeat{}}
	for n := 0; len(lease.Encode(s)) < limits.MaxValue*9/10; {
		for range 100 {
			s.Apart[fmt.Sprintf("%0100d", n)] = lease.NewHeartbeat()
			n++
		}
	}
	if len(lease.Encode(s)) <= limits.MaxValue {
		l.put(backend.Granted, "a session of the greatest size", over(none(session), s))
		got, ok := l.item(session).Value.(*lease.Session)
		l.Want(ok && len(got.Apart) == len(s.Apart), "it is not read as it was written")
	}
	l.counts(limits.Batch, meta)
}

// thousands has more items with long names than fit into 1 MiB, which is the most that some servers take in
// one message. Verifying names those that have changed, of a few items as of all.
func thousands(l *lab) {
	const n = 4800
	name := func(i int) string { return fmt.Sprintf("%s%04d", strings.Repeat("n", backend.MaxName-4), i) }
	there := l.created(name(n/2), 1)
	changed := l.created(name(0), 1)
	l.put(backend.Granted, "a change", inTerm(changed, 2))

	keys, items := make([]lease.Key, n), make([]lease.Item, n)
	for i := range n {
		keys[i], items[i] = key(name(i)), there
	}
	keys[1] = meta
	v := l.counts(2, keys...)
	for i, it := range v.Items {
		_, there := it.Value.(*lease.Record)
		l.Want(there == (i == 0 || i == n/2), "item %d of %d is read as %+v", i, n, it)
	}

	gone := l.created("gone", 1)
	l.put(backend.Granted, "a deletion", over(gone, nil))
	items[3], items[5], items[n-1] = changed, gone, changed
	items[n/2] = lease.Item{Key: key("none"), Version: "1"}
	for _, most := range []int{10, n} {
		want := []int{3, 5, n / 2, n - 1}
		if most == 10 {
			want = want[:2]
		}
		s := over(l.item(session), &lease.Session{Nonce: "0123", At: time.Now().UTC()})
		w, err := l.d.Write(l.ctx, v.Epoch, v.WentBack, []lease.Change{s}, items[:most])
		slices.Sort(w.Stale)
		l.Want(err == nil && w.Results[0].Outcome == backend.Granted && slices.Equal(w.Stale, want),
			"a session with %d items to verify: %+v, %v; want it granted, %v Stale", most, w, err, want)
	}
}
