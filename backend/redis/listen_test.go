package redis

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// listening returns a driver that has subscribed, and what it is told from then on.
func listening(t *testing.T, o Options) (d *driver, told <-chan []lease.Item) {
	t.Helper()
	d = open(t, o)
	heard := make(chan []lease.Item, 100)
	position := drivertest.Read(t, d).Position
	go d.Listen(t.Context(), position, nil, func(items []lease.Item, _ uint64) bool {
		heard <- items
		return true
	})
	if items := next(t, heard); items != nil {
		t.Fatalf("a new subscription tells of %+v: it may have missed others", items)
	}
	return d, heard
}

func next(t *testing.T, told <-chan []lease.Item) []lease.Item {
	t.Helper()
	select {
	case items := <-told:
		return items
	case <-time.After(patience):
		t.Fatal("nothing was told")
		return nil
	}
}

// write writes an item, and notifies others.
func write(t *testing.T, d *driver, k lease.Key, value lease.Value) {
	t.Helper()
	v := drivertest.Read(t, d, k)
	c := lease.Change{Notify: true, Put: []lease.Put{{Over: v.Items[0], Value: value}}}
	w, err := d.Write(t.Context(), v.Epoch, 0, []lease.Change{c}, nil)
	if err != nil || w.Results[0].Outcome != backend.Granted {
		t.Fatal(w, err)
	}
}

// Who hears of a leader needs its record and its session.
func TestAListenerIsToldWhatHasChanged(t *testing.T) {
	t.Parallel()
	server := testbed.SharedRedis(t)
	o := options(server)
	writer := open(t, o)
	_, told := listening(t, o)
	record, session := recordKey("jobs"), lease.Key{Kind: lease.Sessions, Name: "n"}
	put := func(k lease.Key, value lease.Value) { write(t, writer, k, value) }
	put(session, &lease.Session{Generation: "g"})
	next(t, told)
	put(record, &lease.Record{Election: "jobs", Term: 1, Nonce: "n"})
	want := drivertest.Read(t, writer, record, session).Items
	if items := next(t, told); !reflect.DeepEqual(items, want) || items[1].Order == 0 || items[0].Order <= items[1].Order {
		t.Errorf("told of %+v, a reading has %+v", items, want)
	}
	put(record, &lease.Record{Election: "jobs", Term: 1})
	if items := next(t, told); !reflect.DeepEqual(items, drivertest.Read(t, writer, record).Items) {
		t.Errorf("told of the vacancy: %+v", items)
	}
	put(record, &lease.Record{Election: "jobs", Term: 2, Nonce: "nobody"})
	if items := next(t, told); items != nil {
		t.Errorf("told of a leader without a session: %+v, want that something has changed", items)
	}
	put(record, &lease.Record{Election: "jobs", Term: 3, Metadata: strings.Repeat("x", 8192)})
	if items := next(t, told); items != nil {
		t.Errorf("told of %d long items, want that something has changed", len(items))
	}
}

// Whatever else is published says that something has changed, and no more.
func TestAMessageIsChecked(t *testing.T) {
	t.Parallel()
	server := testbed.SharedRedis(t)
	d, told := listening(t, options(server))
	v := drivertest.Read(t, d, recordKey("jobs"))
	text := lease.Encode(&lease.Record{Election: "jobs", Term: 1})
	version := "7.n/7.n/" + sum(text)
	message := func(parts ...string) string { return strings.Join(parts, "\n") }
	for what, hostile := range map[string]string{
		"nothing":                       "",
		"no item":                       v.Epoch,
		"an empty item":                 message(v.Epoch, "", "", "", ""),
		"another epoch":                 message("other", "7", "record", "jobs", version, text),
		"no kind":                       message(v.Epoch, "other", "jobs", version, text),
		"another text":                  message(v.Epoch, "7", "record", "jobs", version, text+" "),
		"an edited item":                message(v.Epoch, "7", "record", "jobs", version+"!"+sum(text), text),
		"too large a number":            message(v.Epoch, "7", "record", "jobs", "18446744073709551615.n/7.n/"+sum(text), text),
		"a number that was not reached": message(v.Epoch, "6", "record", "jobs", version, text),
		"no number":                     message(v.Epoch, "7", "record", "jobs", "x/7.n/"+sum(text), text),
		"a deleted item":                message(v.Epoch, "7", "record", "jobs", "", ""),
		"half an item":                  message(v.Epoch, "7", "record", "jobs", version, text, "session", "n"),
		"a long text":                   message(v.Epoch, "7", "record", "jobs", "7.n/7.n/"+sum(text+strings.Repeat(" ", maxMessage)), text+strings.Repeat(" ", maxMessage)),
		"one that is broken":            message(v.Epoch, "7", "record", "jobs", version, text, "session", "n", "7.n/7.n/"+sum("{"), "{"),
	} {
		server.Do(t, "PUBLISH", d.channel(), hostile)
		if items := next(t, told); items != nil {
			t.Errorf("%s: told of %+v", what, items)
		}
	}
	before := drivertest.Read(t, d, recordKey("jobs"))
	server.Do(t, "PUBLISH", d.channel(), message(v.Epoch, "7", "record", "jobs", version, text))
	if items := next(t, told); len(items) != 1 || items[0].Order != 7 || items[0].Version != version {
		t.Errorf("a message as the script sends it: told of %+v", items)
	}
	if after := drivertest.Read(t, d, recordKey("jobs")); after.Epoch != before.Epoch {
		t.Error("a message with a greater number than the store's makes it another store")
	}
}

// Who does not listen for a while is told of all that came meanwhile, or that something has changed.
func TestWhatIsHeardIsKeptForTheNextCall(t *testing.T) {
	t.Parallel()
	o := options(testbed.SharedRedis(t))
	writer := open(t, o)
	d, told := listening(t, o)
	for _, n := range []int{3, 2 * maxNotices} {
		before := d.currentPosition()
		var last []lease.Item
		for range n {
			write(t, writer, recordKey("jobs"), &lease.Record{Election: "jobs", Term: 1})
			last = next(t, told)
		}
		_, first, _ := d.listen(before)
		switch now := d.currentPosition(); {
		case n > maxNotices && (first.items != nil || first.position != now):
			t.Errorf("%d messages later: %+v, want that something has changed up to %d", n, first, now)
		case n <= maxNotices && (len(first.items) != 1 || first.items[0].Order >= last[0].Order || first.position >= now):
			t.Errorf("%d messages later: %+v, want the first one", n, first)
		}
	}
}
