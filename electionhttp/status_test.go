package electionhttp_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/lab/testbed"
)

// hostile is an id that a process with write access to the store may choose.
const hostile = "</script><img src=x onerror=alert(1)>\"'&"

func names(v map[string]any) (list []string) {
	for _, e := range v["elections"].([]any) {
		list = append(list, e.(map[string]any)["election"].(string))
	}
	return list
}

func TestElectionsShowsLeaderSinceAndRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		a := manager(t, store, election.Options{ID: "a", Address: "10.0.0.1:80", Metadata: "zone=1"}, true, "x")
		time.Sleep(time.Hour) // of virtual time
		former := manager(t, store, election.Options{ID: "c"}, true, "z")
		time.Sleep(time.Second)
		former.Close(context.Background())
		time.Sleep(100 * time.Minute)
		b := manager(t, store, election.Options{ID: "b"}, true, "x", "y")
		if _, err := b.Join("z"); err != nil {
			t.Fatal(err)
		}
		h := handler(t, b, electionhttp.Options{})
		time.Sleep(time.Second)
		read(t, h, "/elections")
		time.Sleep(time.Second) // in which the handler reads the time of a's election from the store
		v := read(t, h, "/elections")
		if v["id"] != "b" || v["backend"] != "memory" || v["ttl_ms"] != 10000.0 || v["actions"] != false || v["store"].(map[string]any)["state"] != "ok" {
			t.Errorf("the status of the process is %v", v)
		}
		if got := fmt.Sprint(v["counts"]); got != "map[alone:1 here:1 idle:1 others:1 paused:0 stuck:0 total:3 unknown:0 vacant:1]" {
			t.Errorf("counts are %s", got)
		}
		if got := names(read(t, h, "/elections?state=alone")); !slices.Equal(got, []string{"y"}) {
			t.Errorf("without a standby are %q, want y, which only b campaigns for", got)
		}
		if got := fmt.Sprint(v["leaders"]); got != "[map[id:a leads:1] map[id:b leads:1]]" {
			t.Errorf("leaders are %s", got)
		}
		x, y, z := v["elections"].([]any)[0].(map[string]any), v["elections"].([]any)[1].(map[string]any), v["elections"].([]any)[2].(map[string]any)
		if got := fmt.Sprintln(x["election"], x["kind"], x["leading"], x["leader"], x["since_by"], x["campaigning"]); got != "x elected false map[address:10.0.0.1:80 id:a] store true\n" {
			t.Errorf("x is %s", got)
		}
		since, err := time.Parse(time.RFC3339Nano, x["since"].(string))
		if ago := time.Since(since); err != nil || ago < 160*time.Minute || ago > 160*time.Minute+10*time.Second {
			t.Errorf("a leads since %v, %v ago; want 160 minutes by the store's record", x["since"], ago)
		}
		if left := x["remaining_ms"].(float64); left <= 0 || left > 10000 {
			t.Errorf("remaining_ms of x is %v", left)
		}
		if got := fmt.Sprintln(y["kind"], y["leading"], y["since_by"], z["kind"], z["campaigning"], z["remaining_ms"], z["leader"]); got != "elected true process vacant false <nil> <nil>\n" {
			t.Errorf("y and z are %s", got)
		}
		since, err = time.Parse(time.RFC3339Nano, z["since"].(string))
		if ago := time.Since(since); err != nil || z["since_by"] != "store" || ago < 100*time.Minute || ago > 100*time.Minute+10*time.Second {
			t.Errorf("z has no leader since %v, %v ago, by the %v; want 100 minutes by the store's record", z["since"], ago, z["since_by"])
		}
		if term := y["term"].(string); len(term) < 10 {
			t.Errorf("the term is %q", term)
		}
		a.Close(context.Background())
		time.Sleep(time.Second)
		d := read(t, h, "/elections/x")
		history := d["record"].(map[string]any)["history"].([]any)
		if d["leading"] != true || len(history) != 1 || history[0].(map[string]any)["id"] != "a" || history[0].(map[string]any)["end"] != "released" {
			t.Errorf("x after a has stepped down: %v", d)
		}
		answers(t, h, "GET", "/elections/nothing", 404) // it was not joined
	})
}

func TestDetailsAreShownOnlyIfRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, details := range []bool{false, true} {
			store := memory.New()
			b := store.Backend()
			m := managerOn(t, b, election.Options{ID: "a", Metadata: "canary"}, true, "x")
			h := handler(t, m, electionhttp.Options{Details: details})
			stream := listen(t, h, "/events", "")
			time.Sleep(time.Second)
			all := ""
			collect := func() {
				for _, path := range []string{"/elections", "/elections/x", "/changes", "/leader/x"} {
					all += get(h, "GET", path).Body.String()
				}
			}
			collect()
			if strings.Contains(all, "canary") != details {
				t.Errorf("with Details %v metadata is shown: %v", details, !details)
			}
			b.Close()
			time.Sleep(time.Minute)
			collect()
			synctest.Wait()
			all += stream.got.String()
			if strings.Contains(all, "memory: ") != details {
				t.Errorf("with Details %v texts of errors are shown: %v", details, !details)
			}
			list, err := store.Backend().List(t.Context(), "", 1)
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			if nonce := string(list[0].Holder.Nonce); nonce == "" || strings.Contains(all, nonce) {
				t.Errorf("an answer shows the nonce %q", nonce)
			}
			shut(m)
			h.Close()
		}
	})
}

func TestHostileTextIsHarmlessInJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		m := manager(t, store, election.Options{ID: "a"}, false, hostile, "x")
		h := handler(t, m, electionhttp.Options{Details: true})
		stream := listen(t, h, "/events", "")
		b := store.Backend()
		evil := backend.Candidate{ID: hostile + "\u202e\x1b]0;\n\ndata: x", Nonce: backend.NewNonce(), Address: "javascript:alert(1)", Metadata: "\xff<b>"}
		testbed.NoError(t, b.Announce(t.Context(), backend.Member{Candidate: evil, TTL: time.Hour}))
		for _, name := range []string{hostile, "x"} {
			seen, err := b.Observe(t.Context(), []backend.Lease{{Election: name}})
			testbed.NoError(t, err)
			if _, err := b.Acquire(t.Context(), []backend.Bid{{Election: name, Candidate: evil, TTL: time.Hour, Renew: time.Hour, Expected: seen[0]}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		all := ""
		for _, path := range []string{"/elections", "/elections/" + url.PathEscape(hostile), "/elections/x", "/changes", "/leader/" + url.PathEscape(hostile), "/leader/x"} {
			w := get(h, "GET", path)
			if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
				t.Errorf("%s is %s", path, w.Header().Get("Content-Type"))
			}
			if w.Code != 200 && !strings.HasPrefix(path, "/leader") {
				t.Errorf("%s: %d", path, w.Code)
			}
			all += w.Body.String()
		}
		synctest.Wait()
		if !strings.Contains(all, "onerror") {
			t.Fatal("no answer has the hostile id, so the test checks nothing")
		}
		for _, line := range strings.Split(stream.got.String(), "\n") {
			if strings.HasPrefix(line, "data: x") {
				t.Error("an id has added a line to the stream")
			}
		}
		for _, bad := range []string{"<", ">", "\u202e", "\x1b", "\xff"} {
			if strings.Contains(all+stream.got.String(), bad) {
				t.Errorf("an answer contains %q", bad)
			}
		}
	})
}

func TestElectionsAreFilteredAndPaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		store := memory.New()
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("shard/%04d", i)
		}
		a := manager(t, store, election.Options{ID: "node-a"}, true, list...)
		time.Sleep(2 * time.Second)
		h := handler(t, a, electionhttp.Options{})
		a.Election("shard/0777").Pause()
		time.Sleep(time.Second)
		v := read(t, h, "/elections?order=attention&limit=50")
		if got := names(v); len(got) != 50 || got[0] != "shard/0777" || got[1] != "shard/0000" || v["matching"] != 1000.0 {
			t.Errorf("the paused election does not come first: %v of %v", got, v["matching"])
		}
		if got := names(read(t, h, "/elections?limit=3&offset=998")); strings.Join(got, " ") != "shard/0998 shard/0999" {
			t.Errorf("the last page is %v", got)
		}
		for query, want := range map[string]int{"q=SHARD/077": 10, "q=node-a": 999, "state=vacant": 1, "state=here": 999, "state=others": 0, "state=paused": 1, "state=here&q=077": 10, "offset=5000": 0, "limit=0": 0} {
			if got := names(read(t, h, "/elections?"+query)); len(got) != want {
				t.Errorf("%s finds %d, want %d", query, len(got), want)
			}
		}
		if c := read(t, h, "/elections?q=nothing")["counts"].(map[string]any); c["total"] != 1000.0 {
			t.Errorf("counts are of the selected elections, not of all: %v", c)
		}
		for _, bad := range []string{"state=x", "limit=-1", "offset=x"} {
			answers(t, h, "GET", "/elections?"+bad, 400)
		}
	})
}
