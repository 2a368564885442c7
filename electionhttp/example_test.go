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

// Every member serves the same handler. A request that reaches a follower goes to the leader, and the term goes along.
func ExampleForward() {
	m, err := election.New(memory.New().Backend(), election.Options{ID: "host-17", Address: "10.0.0.17:8080"})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close(context.Background())
	e, err := m.Join("orders")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := e.Campaign(context.Background()); err != nil {
		log.Fatal(err)
	}

	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "written in a term:", r.Header.Get(electionhttp.TermHeader) != "")
	})
	h, err := electionhttp.Forward(e, api, electionhttp.ForwardOptions{Wait: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	// go http.ListenAndServe(":8080", h)

	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest("POST", "/orders", nil))
	fmt.Print(answer.Body)
	// Output: written in a term: true
}
