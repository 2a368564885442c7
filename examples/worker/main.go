// Worker is a web service of several copies, of which one works in the background. All copies are alive
// (/election/healthz) and ready (/election/readyz), whether or not they lead: a rolling update waits until a
// new copy is ready, and that one leads only when an old one has ended. Who wants the leader asks
// /election/leader/worker, as a load balancer does (docs/http.md). On Kubernetes a Service selects the
// leader's pod by its label: docs/kubernetes.md.
//
//	export ELECTION_BACKEND=file ELECTION_FILE_DIR=/tmp/worker
//	go run ./examples/worker -listen 127.0.0.1:8001
//	go run ./examples/worker -listen 127.0.0.1:8002
//	curl -i 127.0.0.1:8001/election/leader/worker 127.0.0.1:8002/election/leader/worker
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
	"github.com/go-election/go-election/electionhttp"
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
	state, err := electionhttp.New(m, electionhttp.Options{})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/election/", http.StripPrefix("/election", state))
	go func() { log.Fatal(http.ListenAndServe(*listen, nil)) }()
	if err := errors.Join(e.Run(ctx, work), m.Close(context.Background())); err != nil {
		log.Fatal(err)
	}
}

// work runs on the leader only.
func work(ctx context.Context, lead *election.Leadership) error {
	log.Println("working, in term", lead.Term) // your work; its writes carry the term
	<-ctx.Done()
	return nil
}
