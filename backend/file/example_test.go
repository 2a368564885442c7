//go:build linux || darwin

package file_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/election"
)

// All processes of one machine that run this program elect one leader.
func Example() {
	dir, err := os.MkdirTemp("", "election-") // in a real program: one directory for all processes, such as /var/lib/app/election
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	store, err := file.Open(file.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	manager, err := election.New(store, election.Options{})
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := manager.Join("jobs")
	if err != nil {
		log.Fatal(err)
	}
	jobs.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
		fmt.Println("leading", l.Election())
		cancel() // the work is done
		return nil
	})
	if err := manager.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: leading jobs
}
