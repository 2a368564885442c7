package electionhttp_test

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
)

// A program adds a path to its server. Nothing can be changed there.
func Example() {
	m, err := election.New(memory.New().Backend(), election.Options{ID: "host-17"})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close(context.Background())
	e, err := m.Join("billing/nightly")
	if err != nil {
		log.Fatal(err)
	}
	leadership, err := e.Campaign(context.Background())
	if err != nil {
		log.Fatal(err)
	}

	h, err := electionhttp.New(m, electionhttp.Options{})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/election/", http.StripPrefix("/election", h))
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	server.RegisterOnShutdown(h.Close) // Shutdown waits for streams, which do not end by themselves
	// go server.ListenAndServe()

	answer := httptest.NewRecorder()
	server.Handler.ServeHTTP(answer, httptest.NewRequest("GET", "/election/leader/billing%2Fnightly", nil))
	fmt.Println(answer.Code)
	leadership.Resign(context.Background())
	answer = httptest.NewRecorder()
	server.Handler.ServeHTTP(answer, httptest.NewRequest("GET", "/election/leader/billing%2Fnightly", nil))
	fmt.Println(answer.Code)
	// Output:
	// 200
	// 503
}

// Operators who know a password may carry out actions. The handler shows nothing without
// the password. A browser asks its user for it.
func ExampleOptions_authorize() {
	m, err := election.New(memory.New().Backend(), election.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close(context.Background())
	secret := []byte(os.Getenv("STATUS_PASSWORD"))
	known := func(r *http.Request) bool {
		_, password, _ := r.BasicAuth()
		return len(secret) > 0 && subtle.ConstantTimeCompare([]byte(password), secret) == 1
	}
	h, err := electionhttp.New(m, electionhttp.Options{
		Authorize: func(r *http.Request, a electionhttp.Action) error {
			if !known(r) {
				return errors.New("wrong password")
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !known(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="elections"`)
			http.Error(w, "password required", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})

	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	fmt.Println(answer.Code)
	// Output: 401
}
