//go:build !windows

package electionhttp_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/lab/testbed"
)

// A served manager leads "a" and "b/c" and serves the socket at path.
type served struct {
	*election.Manager
	path string
	stop context.CancelFunc
	done chan error
}

func serveLocal(t *testing.T) *served {
	t.Helper()
	m, err := election.New(memory.New().Backend(), election.Options{ID: "me", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	for _, name := range []string{"a", "b/c"} {
		e, err := m.Join(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Lead(nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &served{m, filepath.Join(testbed.TempDir(t), "new", "socket"), stop, make(chan error, 1)}
	go func() { s.done <- electionhttp.ServeLocal(ctx, m, s.path) }()
	testbed.Eventually(t, 3*time.Minute, "the manager leads both elections, and the socket exists", func() error {
		if !m.Election("a").Leading() || !m.Election("b/c").Leading() {
			return context.DeadlineExceeded
		}
		_, err := os.Stat(s.path)
		return err
	})
	return s
}

// ask makes a request and returns the code and the text of the answer.
func (s *served) ask(t *testing.T, method, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.path)
	}}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://local"+url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if err := resp.Write(&text); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(text.String(), "\r\n\r\n")
	return resp.StatusCode, body
}

func TestALocalSocketListsAllElections(t *testing.T) {
	s := serveLocal(t)
	for url, want := range map[string]int{"/elections": 2, "/elections?election=b%2Fc": 1, "/elections?election=other": 0} {
		code, text := s.ask(t, "GET", url)
		var list []struct {
			ID      string
			PID     int
			Leading bool
			Term    uint64 `json:",string"`
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || code != http.StatusOK || list == nil || len(list) != want {
			t.Errorf("%s: code %d, %v, want %d elections: %s", url, code, err, want, text)
		}
		for _, e := range list {
			if e.ID != "me" || e.PID != os.Getpid() || !e.Leading || e.Term == 0 {
				t.Errorf("%s: %s", url, text)
			}
		}
	}
}

func TestALocalSocketControlsOneElection(t *testing.T) {
	s := serveLocal(t)
	if code, text := s.ask(t, "POST", "/elections/b%2Fc/pause"); code != http.StatusOK || !strings.Contains(text, `"leading":false,"paused":true`) {
		t.Errorf("pause: code %d: %s", code, text)
	}
	if s.Election("b/c").Leading() || !s.Election("a").Leading() {
		t.Errorf("after pause: the election is led here: %v; the other election: %v, want true", s.Election("b/c").Leading(), s.Election("a").Leading())
	}
	for _, url := range []string{"/elections/other/pause", "/elections/a/depose"} {
		if code, text := s.ask(t, "POST", url); code != http.StatusNotFound {
			t.Errorf("POST %s: code %d: %s", url, code, text)
		}
	}
}

func TestALocalSocketIsPrivateAndRemoved(t *testing.T) {
	s := serveLocal(t)
	for path, want := range map[string]os.FileMode{s.path: 0o600, filepath.Dir(s.path): 0o700} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v: %v", path, st.Mode(), want, err)
		}
	}
	if err := electionhttp.ServeLocal(t.Context(), s.Manager, s.path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("ServeLocal on a socket in use: %v, want an error", err)
	}
	s.stop()
	if err := <-s.done; err != nil {
		t.Errorf("ServeLocal at the end of its context: %v", err)
	}
	if _, err := os.Lstat(s.path); err == nil {
		t.Error("ServeLocal has not removed the socket")
	}
	if !s.Election("a").Leading() {
		t.Error("the end of ServeLocal has ended the leadership")
	}
}

func TestALocalSocketEndsWithItsManager(t *testing.T) {
	s := serveLocal(t)
	s.Close(t.Context())
	if err := <-s.done; err != nil {
		t.Errorf("ServeLocal when its manager is closed: %v", err)
	}
}
