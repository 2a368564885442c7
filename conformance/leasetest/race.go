package leasetest

import (
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Rounds of a race: enough for a driver that compares and writes in two steps to be caught, and on a server
// no longer than some seconds.
const (
	raceRounds = 300
	raceTime   = 3 * time.Second
)

// A side is one of two changes that are made at once by two clients.
type side struct {
	change lease.Change
	result lease.Result
}

// race makes two changes at once, again and again; next says which in a round, over the items that are there.
// Both are never granted, and a third client reads afterwards what was granted and nothing else.
func (l *lab) race(keys [2]lease.Key, next func(int, []lease.Item) [2]lease.Change) (rounds, granted int) {
	l.Helper()
	clients := [2]lease.Driver{l.open(l), l.open(l)}
	for began := time.Now(); rounds < raceRounds && time.Since(began) < raceTime && !l.Failed(); rounds++ {
		v := l.read(l.d, keys[:]...)
		changes := next(rounds, v.Items)
		sides := [2]side{{change: changes[0]}, {change: changes[1]}}

		start := make(chan bool)
		var both sync.WaitGroup
		for n := range sides {
			both.Go(func() {
				<-start
				change := []lease.Change{sides[n].change}
				w, err := clients[n].Write(l.ctx, v.Epoch, v.WentBack, change, nil)
				if err == nil {
					sides[n].result, err = w.Results[0], w.Results[0].Err
				}
				l.Want(err == nil, "round %d: a change beside another one: %v; want no error", rounds, err)
			})
		}
		close(start)
		both.Wait()

		n := l.granted(sides, l.shown(sides, keys[:]))
		l.Want(n < 2, "round %d: of two changes that exclude each other both were granted", rounds)
		granted += n
	}
	return rounds, granted
}

// shown reads items once what was granted is read. A store may answer with older items for a while.
func (l *lab) shown(sides [2]side, keys []lease.Key) (after []lease.Item) {
	l.Helper()
	written := slices.Concat(sides[0].result.Items, sides[1].result.Items) // none unless it was granted
	isOlder := func(now lease.Item) bool {
		is := func(it lease.Item) bool { return it.Key == now.Key && it.Version != now.Version }
		return slices.ContainsFunc(written, is)
	}
	for range 100 {
		after = l.read(l.d, keys...).Items
		if !slices.ContainsFunc(after, isOlder) {
			break
		}
	}
	return after
}

// granted returns how many sides were granted, and fails the test if the items show something else: what was
// granted is read afterwards, and what was refused is not there.
func (l *lab) granted(sides [2]side, after []lease.Item) (n int) {
	l.Helper()
	want := make(map[lease.Key]string) // versions
	for _, s := range sides {
		for i, p := range s.change.Put {
			if s.result.Outcome == backend.Granted {
				want[p.Over.Key] = s.result.Items[i].Version
			} else if want[p.Over.Key] == "" {
				want[p.Over.Key] = p.Over.Version
			}
		}
		if s.result.Outcome == backend.Granted {
			n++
		}
	}
	for _, it := range after {
		version, put := want[it.Key]
		l.Want(!put || it.Version == version, "%v has version %q, want %q: of two changes %v and %v",
			it.Key, it.Version, version, sides[0].result.Outcome, sides[1].result.Outcome)
	}
	return n
}

// contended makes changes over the same versions: of one item, and of two in opposite orders.
func contended(l *lab) {
	keys := l.both("a", "b")
	rounds, granted := l.race(keys, func(round int, now []lease.Item) (changes [2]lease.Change) {
		for n := range changes {
			term := uint64(2*round + n + 2)
			changes[n] = inTerm(now[0], term)
			if round%2 == 1 {
				changes[n] = together(inTerm(now[n], term), inTerm(now[1-n], term))
			}
		}
		return changes
	})
	l.Want(granted == rounds, "of two changes one wins, but in %d of %d rounds none", rounds-granted, rounds)
}

// both creates two records.
func (l *lab) both(a, b string) [2]lease.Key {
	l.Helper()
	return [2]lease.Key{l.created(a, 1).Key, l.created(b, 1).Key}
}

// crossing is two changes, each of which puts one item and checks the other.
func crossing(round int, now []lease.Item) (changes [2]lease.Change) {
	for n, it := range now {
		var value lease.Value = record(it.Name, uint64(round+2))
		if it.Kind == lease.Sessions {
			beat := lease.Heartbeat(round + 2)
			value = &lease.Session{Nonce: it.Name, Heartbeat: beat, At: time.Now().UTC()}
		}
		changes[n] = checking(over(it, value), now[1-n])
	}
	return changes
}

// crossed makes changes that each check what the other one puts: a renewal puts the session and checks the
// record, and a takeover puts the record and checks the session. In every other round what is checked is that
// the item is missing.
func crossed(l *lab) {
	l.race(l.both("a", "b"), func(round int, now []lease.Item) [2]lease.Change {
		for n, it := range now {
			if round%2 == 1 && it.Version != "" {
				l.put(backend.Granted, "a deletion", over(it, nil))
				now[n] = none(it.Key)
			}
		}
		return crossing(round, now)
	})
	if l.d.Limits().Checks > 0 {
		mine := &lease.Session{Nonce: session.Name}
		l.put(backend.Granted, "a session that is not there", over(none(session), mine))
		l.race([2]lease.Key{l.created("c", 1).Key, session}, crossing)
	}
}

// besideRollBacks makes changes, each of which puts one item and checks the other, while somebody else
// changes both in transactions that are rolled back: what was granted stays, and what was refused has put
// nothing.
func besideRollBacks(l *lab) {
	keys := l.both("a", "b")
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond): // the items are free for a moment
				l.RollBack(keys[n%2])
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()

	_, granted := l.race(keys, crossing)
	l.Want(granted > 0, "beside a writer that rolls back no change is granted")
}

// wentBack makes the store what it was. A client that has seen more says so, and refuses changes by what it
// had read.
func wentBack(l *lab) {
	first := l.created("a", 1)
	restore := l.GoBack()
	l.connectAgain()
	l.put(backend.Granted, "a change that will be lost", inTerm(first, 2))
	before := l.read(l.d, key("a"))
	restore()

	late := []lease.Change{inTerm(before.Items[0], 3)}
	w, err := l.d.Write(l.ctx, before.Epoch, before.WentBack, late, nil)
	l.Want(err != nil || w.Results[0].Outcome != backend.Granted,
		"a change by what was read before the store went back was granted")

	l.connectAgain()
	after := l.read(l.d, key("a"))
	other := after.Epoch != before.Epoch
	l.Want(other || after.WentBack != before.WentBack,
		"the store went back, and the driver says so neither by Epoch nor by WentBack: %+v", after)
	l.Want(other || after.Items[0].Old, "what was written before that is not old: %+v", after.Items[0])
}

// connectAgain waits until the store can be read, after it may have been started again.
func (l *lab) connectAgain() {
	for _, err := l.d.Read(l.ctx, nil); err != nil && l.ctx.Err() == nil; _, err = l.d.Read(l.ctx, nil) {
		<-time.After(50 * time.Millisecond)
	}
}
