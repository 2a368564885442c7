package config_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	_ "github.com/go-election/go-election/backend/file" // the stores that this program can use
	_ "github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/config"
)

func ExampleOpen() {
	ctx := context.Background()
	os.Setenv("ELECTION_BACKEND", "memory")
	defer os.Unsetenv("ELECTION_BACKEND")

	m, err := config.Open(ctx, "testdata/election.yaml")
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close(ctx)
	fmt.Println(m.ID())
	// Output: anna
}

// A program sets the options that a file cannot hold between Load and Open.
func ExampleConfig_Open() {
	ctx := context.Background()
	c, err := config.Load("testdata/election.yaml", config.Options{Environ: []string{"ELECTION_BACKEND=memory"}})
	if err != nil {
		log.Fatal(err)
	}
	c.Election.Logger = slog.Default()
	c.Election.Health = func(context.Context) error { return nil }
	m, err := c.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close(ctx)
	fmt.Println(c.Backend, c.Election.TTL)
	// Output: memory 10s
}

func ExampleParse() {
	_, err := config.Parse("election.yaml", []byte("backend: memory\nttl: 10\n"), config.Options{})
	fmt.Println(err)
	// Output: config: election.yaml:2: ttl: "10" has no unit; write a duration as 10s, 500ms or 1m30s
}

// One word selects the store. The file has a section for each store, and the environment
// overrides the file.
func ExampleConfig_OpenBackend() {
	file := []byte("backend: memory\nttl: 10s\nmysql:\n  dsn_file: /run/secrets/mysql-dsn\n")
	dir, err := os.MkdirTemp("", "election")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, environ := range [][]string{{}, {"ELECTION_BACKEND=file", "ELECTION_FILE_DIR=" + dir}} {
		c, err := config.Parse("election.yaml", file, config.Options{Environ: environ})
		if err != nil {
			log.Fatal(err)
		}
		b, err := c.OpenBackend()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.Backend, "one leader is promised:", b.Guarantees().Exclusive)
		b.Close()
	}
	// Output:
	// memory one leader is promised: true
	// file one leader is promised: true
}
