// Worker is a web service of several copies, of which one works in the background. All copies are
// alive (/healthz). Only the one that leads is ready (/readyz), so a load balancer sends every request
// to it. On Kubernetes let all copies be ready, or a rolling update waits for ever, and send requests to the leader by
// its pod's label: docs/kubernetes.md.
//
//	export ELECTION_BACKEND=file ELECTION_FILE_DIR=/tmp/worker
//	go run ./examples/worker -listen 127.0.0.1:8001
//	go run ./examples/worker -listen 127.0.0.1:8002
//	curl -i 127.0.0.1:8001/readyz 127.0.0.1:8002/readyz
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os/signal"
	"syscall"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8001", "the address to serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	m, err := config.Open(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	e, err := m.Join("worker")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.ListenAndServe(*listen, routes(e))) }()
	if err := errors.Join(e.Run(ctx, work), m.Close(context.Background())); err != nil {
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
	log.Println("working, in term", lead.Term) // your work; its writes carry the term
	<-ctx.Done()
	return nil
}
