// Worker is a web service that runs as several copies, and one copy works in the background. All
// copies are alive (/healthz). Only the copy that leads is ready (/readyz), so a load balancer, or a
// Service of Kubernetes, that asks for readiness sends every request to it. For a service of which
// every copy answers requests, leave /readyz to the program's own checks.
//
//	export ELECTION_BACKEND=file ELECTION_FILE_DIR=/tmp/worker
//	go run ./examples/worker -listen 127.0.0.1:8001
//	go run ./examples/worker -listen 127.0.0.1:8002
//	curl -i 127.0.0.1:8001/readyz 127.0.0.1:8002/readyz
//
// Never more than one copy is ready, so a Deployment of Kubernetes must allow that in an update, by
// strategy Recreate or maxUnavailable 100%, or it waits forever for the second one.
//
// Package electionhttp has more: JSON, events, and a page for people.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8001", "the address to serve")
	file := flag.String("config", "", "election.yaml (default: the environment alone)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	m, err := config.Open(ctx, *file)
	if err != nil {
		log.Fatal(err)
	}
	e, err := m.Join("worker")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *listen, Handler: routes(e), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		log.Print(server.ListenAndServe())
		stop() // without its address the program is of no use
	}()
	err = e.Run(ctx, work)
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := errors.Join(err, server.Shutdown(end), m.Close(end)); err != nil {
		log.Fatal(err)
	}
}

func routes(e *election.Election) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !e.Leading() {
			http.Error(w, "another copy leads", http.StatusServiceUnavailable)
		}
	})
	return mux
}

// work runs on the leader only.
func work(ctx context.Context, lead *election.Leadership) error {
	for {
		log.Println("working, in term", lead.Term) // your work; its writes carry the term
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Second):
		}
	}
}
