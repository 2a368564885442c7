// Package local serves the socket through which "elect resign", "pause" and "resume"
// reach one process on this machine. Commands for one process never go through the store.
// They use HTTP over a unix socket of mode 0600, in a directory that only its owner can
// enter. A user who may connect may also kill the process.
//
//	GET  /elections                 [{"election": …, "id": …, "pid": …, "leading": …, …}];
//	                                with election=NAME only that election
//	POST /elections/NAME/resign     resigns, and returns the new state
//	POST /elections/NAME/pause
//	POST /elections/NAME/resume
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A State is the state of one election in one process.
type State struct {
	Election string `json:"election"`
	ID       string `json:"id"`
	PID      int    `json:"pid"`
	Leading  bool   `json:"leading"`
	Paused   bool   `json:"paused"`
	Term     uint64 `json:"term,omitempty,string"` // of this process's leadership
	Command  int    `json:"command,omitempty"`     // the pid of elect run's command, if it runs

	// Only for elect run: how long its command may take to end.
	StopTimeout float64 `json:"stop_timeout_seconds,omitempty"`
}

// A Program is the process behind a socket.
type Program interface {
	// States returns the elections in which the process takes part.
	States() []State
	// Do carries out "resign", "pause" or "resume" in one election, and returns when
	// that is done.
	Do(ctx context.Context, election, what string) error
}

// Dir returns the directory of sockets, and creates it if needed. Only this user may be
// able to enter it.
func Dir() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("elect-%d", os.Geteuid()))
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		dir = filepath.Join(run, "elect")
	} else if os.Geteuid() == 0 {
		dir = "/run/elect"
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, checkPrivate(dir)
}

// A Server serves a socket.
type Server struct {
	Path   string
	server *http.Server
	ended  chan error
}

// Serve serves p on a socket at path. An empty path means PID.sock in [Dir].
func Serve(path string, p Program) (*Server, error) {
	if path == "" {
		dir, err := Dir()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, fmt.Sprintf("%d.sock", os.Getpid()))
	}
	l, err := listenPrivate(path)
	if err != nil {
		return nil, err
	}
	s := &Server{path, &http.Server{Handler: handler(p), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}, make(chan error, 1)}
	go func() { s.ended <- s.server.Serve(l) }()
	return s, nil
}

// Ended receives an error when the server stops.
func (s *Server) Ended() <-chan error { return s.ended }

// Close aborts requests and removes the socket.
func (s *Server) Close() {
	s.server.Close()
	os.Remove(s.Path)
}

func handler(p Program) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /elections", func(w http.ResponseWriter, r *http.Request) {
		states := p.States()
		if name := r.FormValue("election"); name != "" {
			states = slices.DeleteFunc(states, func(s State) bool { return s.Election != name })
		}
		answer(w, states)
	})
	mux.HandleFunc("POST /elections/{name}/{what}", func(w http.ResponseWriter, r *http.Request) {
		name, what := r.PathValue("name"), r.PathValue("what")
		known := slices.ContainsFunc(p.States(), func(s State) bool { return s.Election == name })
		if !known || !slices.Contains([]string{"resign", "pause", "resume"}, what) {
			http.NotFound(w, r)
			return
		}
		if err := p.Do(r.Context(), name, what); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for _, s := range p.States() {
			if s.Election == name {
				answer(w, s)
				return
			}
		}
		http.NotFound(w, r) // the process has left the election meanwhile
	})
	return mux
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
