package electionhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/lab/testbed"
)

// A client receives a stream without a network. While it is blocked it accepts no data.
type client struct {
	head  http.Header
	mu    sync.Mutex
	got   bytes.Buffer
	block chan struct{} // nil: not blocked
	ended chan struct{}
	leave context.CancelFunc
}

func (c *client) Header() http.Header { return c.head }
func (c *client) WriteHeader(int)     {}
func (c *client) Flush()              {}
func (c *client) Write(p []byte) (int, error) {
	c.mu.Lock()
	block := c.block
	c.mu.Unlock()
	if block != nil {
		<-block
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got.Write(p)
}

// stop keeps what is sent until accept is called.
func (c *client) stop() (accept func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	block := make(chan struct{})
	c.block = block
	return func() { close(block) }
}

func listen(t *testing.T, h http.Handler, path, since string) *client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{head: make(http.Header), ended: make(chan struct{}), leave: cancel}
	t.Cleanup(cancel)
	r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	if since != "" {
		r.Header.Set("Last-Event-ID", since)
	}
	go func() {
		defer close(c.ended)
		h.ServeHTTP(c, r)
	}()
	return c
}

// received returns the events so far, each as "event election kind leader", and the last id.
func (c *client) received(t *testing.T) (list []string, id string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	event := ""
	for line := range strings.Lines(c.got.String()) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch key {
		case "id":
			id = value
		case "event":
			event = value
		case "data":
			var d struct {
				Election, Kind string
				Leader         *struct{ ID string }
			}
			if err := json.Unmarshal([]byte(value), &d); err != nil {
				t.Fatalf("%v in %q", err, value)
			}
			text := strings.TrimSpace(event + " " + d.Election + " " + d.Kind)
			if d.Leader != nil {
				text += " " + d.Leader.ID
			}
			list = append(list, text)
		}
	}
	return list, id
}

func (c *client) wantReceived(t *testing.T, want ...string) (id string) {
	t.Helper()
	synctest.Wait()
	got, id := c.received(t)
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("the stream has\n  %s, want\n  %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
	return id
}

func TestAStreamHasTheStatesAndEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		a := manager(t, store, election.Options{ID: "a"}, true, "x", "y")
		time.Sleep(time.Second) // of virtual time
		h := handler(t, a, electionhttp.Options{})
		all, one, none := listen(t, h, "/events", ""), listen(t, h, "/events?election=y", ""), listen(t, h, "/events?states=no", "")
		all.wantReceived(t, "state x elected a", "state y elected a", "ready")
		if got := all.head.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("Content-Type is %q", got)
		}
		testbed.NoError(t, a.Election("x").Resign(t.Context()))
		id := all.wantReceived(t, "state x elected a", "state y elected a", "ready", "change x vacant")
		one.wantReceived(t, "state y elected a", "ready")
		none.wantReceived(t, "ready", "change x vacant")

		time.Sleep(10 * time.Second)
		again := listen(t, h, "/events", id)
		again.wantReceived(t, "change x elected a")
		listen(t, h, "/events?states=no&since="+id, "").wantReceived(t, "change x elected a")
		listen(t, h, "/events", "another-7").wantReceived(t, "reset", "state x elected a", "state y elected a", "ready")
		listen(t, h, "/events", id+"0000").wantReceived(t, "reset", "state x elected a", "state y elected a", "ready")

		time.Sleep(15 * time.Second)
		synctest.Wait()
		if !strings.HasSuffix(all.got.String(), ": still here\n\n") {
			t.Errorf("an idle stream does not end with a heartbeat comment: %q", all.got.String())
		}
		all.leave()
		<-all.ended
		testbed.NoError(t, a.Close(context.Background()))
		<-one.ended              // closing the manager ends it
		get(h, "GET", "/events") // ends as well
	})
}

// The page reads the list of changes and then opens the stream. The stream must have the
// changes between the two, even if the list was empty.
func TestAStreamResumesAfterAnEmptyListOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := manager(t, memory.New(), election.Options{ID: "a"}, true, "x")
		time.Sleep(time.Second) // of virtual time
		h := handler(t, a, electionhttp.Options{})
		synctest.Wait()
		past := read(t, h, "/changes")
		if n := len(past["changes"].([]any)); n != 0 {
			t.Fatalf("%d changes at the start, want none", n)
		}
		testbed.NoError(t, a.Election("x").Resign(t.Context()))
		listen(t, h, "/events?states=no&since="+past["newest"].(string), "").wantReceived(t, "change x vacant")
	})
}

func TestStreamsAreLimitedAndEndWithTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, manager(t, memory.New(), election.Options{ID: "a"}, false, "x"), electionhttp.Options{})
		for range 126 {
			listen(t, h, "/events", "")
		}
		one, two := listen(t, h, "/events", ""), listen(t, h, "/events", "")
		synctest.Wait()
		if w := get(h, "GET", "/events"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("the 129th stream: %d, want 503 and Retry-After", w.Code)
		}
		one.leave()
		<-one.ended
		three := listen(t, h, "/events", "")
		h.Close()
		<-two.ended
		<-three.ended
	})
}

func TestASlowClientIsResetAndDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		a := manager(t, store, election.Options{ID: "a"}, false, "x")
		time.Sleep(time.Second)
		h := handler(t, a, electionhttp.Options{})
		slow, quick := listen(t, h, "/events", ""), listen(t, h, "/events", "")
		slow.wantReceived(t, "state x vacant", "ready")
		accept := slow.stop()
		const leaderships = 200 // two changes each
		for range leaderships {
			l, err := a.Election("x").Campaign(t.Context())
			testbed.NoError(t, err)
			testbed.NoError(t, l.Resign(t.Context()))
			synctest.Wait()
		}
		if got, _ := quick.received(t); len(got) != 2+2*leaderships {
			t.Errorf("a quick client has received %d events, want %d", len(got), 2+2*leaderships)
		}
		accept()
		synctest.Wait()
		got, _ := slow.received(t)
		if len(got) > 2+256+3 {
			t.Errorf("%d events have waited for a slow client, want at most 256", len(got))
		}
		tail := strings.Join(got[len(got)-3:], ", ")
		if tail != "reset, state x vacant, ready" {
			t.Errorf("the slow client's last events are %s, want a reset and the states", tail)
		}
	})
}

func TestAStreamOverARealConnection(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Second // enough for a request on a busy machine
	store := memory.New()
	a := manager(t, store, election.Options{ID: "a", TTL: time.Minute}, true, "x")
	knows(t, a, "x", "a")
	h := handler(t, a, electionhttp.Options{})
	server := httptest.NewUnstartedServer(h)
	server.Config.ReadTimeout, server.Config.WriteTimeout = limit, limit // streams last longer
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(h.Close) // runs first: server.Close waits for streams
	answer, err := server.Client().Get(server.URL + "/events")
	testbed.NoError(t, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	reach := func(what string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), what) {
				return
			}
		}
		t.Fatalf("the stream ended (%v) before %s", lines.Err(), what)
	}
	reach("event: ready")
	<-time.After(limit + limit/10) // longer than the server's limits
	a.Pause()
	reach("event: change")
	reach("data: ")
	if !strings.Contains(lines.Text(), `"kind":"vacant"`) || !strings.Contains(lines.Text(), `"reason":"paused"`) {
		t.Errorf("the change after Pause is %s", lines.Text())
	}
	h.Close()
	for lines.Scan() {
	}
	if lines.Err() != nil {
		t.Errorf("the stream ended with an error: %v", lines.Err())
	}
}

func TestChangesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		m := manager(t, store, election.Options{ID: "a"}, false)
		h := handler(t, m, electionhttp.Options{})
		for i := range 3 {
			e, _ := m.Join(fmt.Sprintf("e%d", i))
			testbed.NoError(t, e.Lead(nil))
		}
		time.Sleep(time.Second)
		m.Election("e1").Pause()
		time.Sleep(time.Second)
		list := read(t, h, "/changes")["changes"].([]any)
		if newest := list[0].(map[string]any); newest["election"] != "e1" || newest["kind"] != "vacant" || newest["reason"] != "paused" || newest["first"] != nil {
			t.Errorf("the newest change is %v, want the pause of e1", newest)
		}
		if n := len(read(t, h, "/changes?election=e1&limit=1")["changes"].([]any)); n != 1 {
			t.Errorf("%d changes of e1, want 1", n)
		}
		for _, bad := range []string{"-1", "x", "1000000"} {
			answers(t, h, "GET", "/changes?limit="+bad, 400)
		}
	})
}
