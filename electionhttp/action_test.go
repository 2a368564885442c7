package electionhttp_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
)

func allowAll(*http.Request, electionhttp.Action) error { return nil }

// post requests an action. headers are pairs of key and value.
func post(h http.Handler, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/actions", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestActionsDoWhatTheySay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		a := manager(t, store, election.Options{ID: "a"}, true, "x", "y")
		time.Sleep(time.Second) // of virtual time
		b := manager(t, store, election.Options{ID: "b"}, true, "x", "y")
		time.Sleep(time.Second)
		ha := handler(t, a, electionhttp.Options{Authorize: allowAll})
		hb := handler(t, b, electionhttp.Options{Authorize: allowAll})
		do := func(h http.Handler, body string, want int) {
			t.Helper()
			if w := post(h, body); w.Code != want {
				t.Errorf("%s: %d %s, want %d", body, w.Code, w.Body, want)
			}
			time.Sleep(time.Second)
		}
		led := func(when, x, y string) {
			t.Helper()
			for name, want := range map[string]string{"x": x, "y": y} {
				if who, _, _ := a.Election(name).Leader(); who.ID != want {
					t.Errorf("%s %q leads %s, want %q", when, who.ID, name, want)
				}
			}
		}
		led("at first", "a", "a")
		do(ha, `{"action":"resign","election":"x"}`, 200)
		led("after a has resigned from x", "b", "a")
		do(ha, `{"action":"nominate","election":"x","id":"a"}`, 200)
		time.Sleep(15 * time.Second)
		led("after a was nominated for x", "a", "a")
		do(hb, `{"action":"depose","election":"y"}`, 200)
		time.Sleep(15 * time.Second)
		led("after the leader of y was deposed", "a", "b")
		do(ha, `{"action":"pause"}`, 200)
		time.Sleep(time.Second)
		led("after a was paused", "b", "b")
		if s := read(t, ha, "/elections"); s["paused"] != true || s["counts"].(map[string]any)["paused"] != 2.0 {
			t.Errorf("the status of a does not show the pause: %v", s)
		}
		do(ha, `{"action":"resume"}`, 200)
		do(hb, `{"action":"pause","election":"x"}`, 200)
		led("after b was paused in x", "a", "b")
		do(hb, `{"action":"resume","election":"x"}`, 200)
		do(hb, `{"action":"resign","election":"z"}`, 404)
	})
}

func TestNoActionsWithoutAuthorize(t *testing.T) {
	h := handler(t, manager(t, memory.New(), election.Options{ID: "a"}, false, "x"), electionhttp.Options{})
	if w := post(h, `{"action":"pause"}`); w.Code != 403 {
		t.Errorf("POST: %d, want 403", w.Code)
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		for _, path := range []string{"/", "/elections", "/elections/x", "/changes", "/events", "/healthz", "/readyz", "/leader/x"} {
			answers(t, h, method, path, 405)
		}
	}
	if s := read(t, h, "/elections"); s["actions"] != false {
		t.Error("actions is true without Authorize")
	}
}

func TestInvalidAndForbiddenActionsAreRefused(t *testing.T) {
	m := manager(t, memory.New(), election.Options{ID: "a"}, false, "x")
	var asked []electionhttp.Action
	h := handler(t, m, electionhttp.Options{Authorize: func(r *http.Request, a electionhttp.Action) error {
		asked = append(asked, a)
		if r.Header.Get("Authorization") != "Bearer sesame" {
			return errors.New("the word is sesame")
		}
		return nil
	}})
	for _, c := range []struct {
		what, body string
		headers    []string
		want       int
	}{
		{"another site's page", `{"action":"pause"}`, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a page of another origin", `{"action":"pause"}`, []string{"Origin", "https://evil.example"}, 403},
		{"a form", `action=pause`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"a form with another content type", `{"action":"pause"}`, []string{"Content-Type", "text/plain"}, 415},
		{"a long body", `{"action":"pause","id":"` + strings.Repeat("x", 5000) + `"}`, nil, 400},
		{"no JSON", `pause`, nil, 400},
		{"an unknown field", `{"action":"pause","force":true}`, nil, 400},
		{"two actions", `{"action":"pause"}{"action":"resume"}`, nil, 400},
		{"an unknown action", `{"action":"delete","election":"x"}`, nil, 400},
		{"no election", `{"action":"depose"}`, nil, 400},
		{"an impossible id", `{"action":"nominate","election":"x","id":"a\u202eb"}`, nil, 400},
	} {
		if w := post(h, c.body, c.headers...); w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.what, w.Code, c.want)
		}
	}
	if len(asked) > 0 {
		t.Errorf("Authorize was called for invalid requests: %v", asked)
	}
	w := post(h, `{"action":"pause"}`)
	if w.Code != 403 || strings.Contains(w.Body.String(), "sesame") {
		t.Errorf("a refused action: %d %s, want 403 without the error's text", w.Code, w.Body)
	}
	if m.Status().Paused {
		t.Error("a refused action was carried out")
	}
	if w := post(h, `{"action":"pause"}`, "Authorization", "Bearer sesame", "Sec-Fetch-Site", "same-origin"); w.Code != 200 || !m.Status().Paused {
		t.Errorf("an allowed action: %d, and the process is paused: %v", w.Code, m.Status().Paused)
	}
	if w := post(h, `{"action":"nominate","election":"x","id":"b"}`, "Authorization", "Bearer sesame"); w.Code != 409 {
		t.Errorf("a nomination without a leader: %d %s, want 409", w.Code, w.Body)
	}
}
