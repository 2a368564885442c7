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
	names := []string{"a", "A", "a b", "a/b", "a%2Fb", "á", "a\"'`", "~", "0", "z/", "é€𝄞", strings.Repeat("n", backend.MaxName)}
	for _, name := range names {
		l.created(name, 1)
	}
	slices.Sort(names)
	var got []string
	for from := ""; ; from = got[len(got)-1] + "\x00" {
		v, err := l.d.List(l.Context(), lease.Records, from, 5)
		if err != nil || len(v.Items) > 5 {
			l.Fatalf("a page of 5: %d items, %v", len(v.Items), err)
		}
		for _, it := range v.Items {
			if r, ok := it.Value.(*lease.Record); !ok || r.Election != it.Name || it.Kind != lease.Records || it.Edited {
				l.Errorf("item %+v in a list", it)
			}
			got = append(got, it.Name)
		}
		if len(v.Items) < 5 {
			break
		}
	}
	if !slices.Equal(got, names) {
		l.Errorf("listed %q, want %q", got, names)
	}
	if v, err := l.d.List(l.Context(), lease.Sessions, "", 5); err != nil || len(v.Items) > 0 {
		l.Errorf("there are sessions: %v, %v", v.Items, err)
	}
}

// aged waits until an item is older, as it is read and as it is listed. A driver that says of each item that
// it was written just now makes the leader of a lease that nobody renews look alive.
func aged(l *lab) {
	began := time.Now()
	l.created("a", 1)
	for {
		v, err := l.d.List(l.Context(), lease.Records, "", 1)
		if err != nil || len(v.Items) != 1 {
			l.Fatalf("a list of one record: %+v, %v", v.Items, err)
		}
		read, listed, since := l.item(key("a")).Age, v.Items[0].Age, time.Since(began)
		switch {
		case max(read, listed) > since+time.Second:
			l.Fatalf("an item was written %v ago, and its age is read as %v and listed as %v", since, read, listed)
		case read != 0 && listed != 0:
			return
		case since > 3*time.Second:
			l.Fatalf("an item that was written %v ago is read as if that were %v, and listed as if it were %v", since, read, listed)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// lookAlikes writes records whose names some collation takes for one. If each waited for the others, that
// would take too long.
func lookAlikes(l *lab) {
	var keys []lease.Key
	for i := range backend.MaxName - 8 {
		name := ""
		for bit := range 8 {
			name += [4][2]string{{"a", "A"}, {"e", "é"}, {"\u00e9", "e\u0301"}, {"s", "s\u200d"}}[bit%4][i>>bit&1]
		}
		keys = append(keys, key(name), key("b"+strings.Repeat(" ", i)))
	}
	for term := range uint64(2) {
		changes := make([]lease.Change, len(keys))
		for i, it := range l.read(l.d, keys...).Items {
			changes[i] = over(it, record(it.Name, term))
		}
		for i, r := range l.write(changes...).Results {
			if r.Outcome != backend.Granted {
				l.Fatalf("%q: %v", keys[i].Name, r.Outcome)
			}
		}
	}
	for _, it := range l.read(l.d, keys...).Items {
		if r, _ := it.Value.(*lease.Record); r == nil || r.Election != it.Name || r.Term != 1 {
			l.Fatalf("%q is read as %+v", it.Name, it)
		}
	}
}

func counted(l *lab) {
	for n := range 3 {
		if v := l.read(l.d, key("r0"), meta); v.Records != int64(n) {
			l.Errorf("%d records are counted as %d", n, v.Records)
		}
		l.created(fmt.Sprint("r", n), 1)
	}
	l.put(backend.Granted, "the meta item and a session", lease.Change{Put: []lease.Put{{Over: none(meta), Value: &lease.Meta{Layout: 1}},
		{Over: none(session), Value: &lease.Session{Nonce: "0123"}}}})
	l.put(backend.Granted, "a deletion", over(l.item(key("r1")), nil))
	if v := l.read(l.d, meta); v.Records != 2 {
		l.Errorf("two records are counted as %d", v.Records)
	}
}

func largest(l *lab) {
	limits := l.d.Limits()
	if limits.Batch < 4 || limits.MaxValue < 64<<10 || limits.MinTTL <= 0 || limits.MaxTTL < limits.MinTTL {
		l.Errorf("%+v; want Batch of 4 and MaxValue of 64 KiB at least, and 0 < MinTTL <= MaxTTL", limits)
	}
	big := func(name string) *lease.Record {
		r := record(name, 1)
		r.Metadata, r.Address = strings.Repeat("m", backend.MaxMetadata), strings.Repeat("a", backend.MaxAddress)
		return r
	}
	var c lease.Change
	for n := range limits.Batch {
		name := fmt.Sprint("b", n)
		c.Put = append(c.Put, lease.Put{Over: none(key(name)), Value: big(name)})
	}
	l.put(backend.Granted, fmt.Sprintf("a change of %d puts", limits.Batch), c)
	other := lease.Key{Kind: lease.Sessions, Name: "checked"}
	checked := over(none(other), &lease.Session{Nonce: "checked", At: time.Now().UTC()})
	for n := range max(limits.Batch-1, limits.Checks) {
		checked.Check = append(checked.Check, lease.Item{Key: key(fmt.Sprint("none", n))})
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
		if got, ok := l.item(session).Value.(*lease.Session); !ok || len(got.Apart) != len(s.Apart) {
			l.Error("it is not read as it was written")
		}
	}
	if v := l.read(l.d, meta); v.Records != int64(limits.Batch) {
		l.Errorf("%d records are counted as %d", limits.Batch, v.Records)
	}
}

// thousands has more items with long names than fit into 1 MiB, which is the most that some servers take in
// one message. Verifying names those that have changed, of a few items as of all.
func thousands(l *lab) {
	const n = 4800
	name := func(i int) string { return fmt.Sprintf("%s%04d", strings.Repeat("n", backend.MaxName-4), i) }
	there := l.created(name(n/2), 1)
	changed := l.created(name(0), 1)
	l.put(backend.Granted, "a change", over(changed, record(name(0), 2)))

	keys, items := make([]lease.Key, n), make([]lease.Item, n)
	for i := range n {
		keys[i], items[i] = key(name(i)), there
	}
	keys[1] = meta
	v := l.read(l.d, keys...)
	for i, it := range v.Items {
		if r, _ := it.Value.(*lease.Record); (r != nil) != (i == 0 || i == n/2) {
			l.Errorf("item %d of %d is read as %+v", i, n, it)
		}
	}
	if v.Records != 2 {
		l.Errorf("two records are counted as %d", v.Records)
	}

	gone := l.created("gone", 1)
	l.put(backend.Granted, "a deletion", over(gone, nil))
	items[3], items[5], items[n/2], items[n-1] = changed, gone, lease.Item{Key: key("none"), Version: "1"}, changed
	for _, most := range []int{10, n} {
		want := []int{3, 5, n / 2, n - 1}
		if most == 10 {
			want = want[:2]
		}
		s := over(l.item(session), &lease.Session{Nonce: "0123", At: time.Now().UTC()})
		w, err := l.d.Write(l.Context(), v.Epoch, v.WentBack, []lease.Change{s}, items[:most])
		if slices.Sort(w.Stale); err != nil || w.Results[0].Outcome != backend.Granted || !slices.Equal(w.Stale, want) {
			l.Errorf("a session with %d items to verify: %+v, %v; want it granted, and %v Stale", most, w, err, want)
		}
	}
}
