// Pictures draws the pictures of README and of docs/bench.md as SVG, in light and dark: the demo from
// a recording of a terminal, and the charts from the tables of docs/bench.md and docs/guard.md. It runs in the root of
// the repository.
//
//	go run ./scripts/pictures
//	go run ./scripts/pictures -record     # first record the demo again (Linux, with script(1))
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/go-election/go-election/lab/figures"
)

const (
	images    = "docs/images"
	recording = images + "/demo.txt"
)

func main() {
	log.SetFlags(0)
	again := flag.Bool("record", false, "record the demo again")
	flag.Parse()
	if *again {
		if err := record(); err != nil {
			log.Fatal("pictures: ", err)
		}
	}
	drawn, err := draw(".")
	if err != nil {
		log.Fatal("pictures: ", err)
	}
	for name, picture := range drawn {
		if err := os.WriteFile(filepath.Join(images, name), []byte(picture), 0o644); err != nil {
			log.Fatal("pictures: ", err)
		}
	}
}

// draw returns all pictures by name, from the files under root.
func draw(root string) (map[string]string, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/bench.md"))
	if err != nil {
		return nil, err
	}
	guard, err := os.ReadFile(filepath.Join(root, "docs/guard.md"))
	if err != nil {
		return nil, err
	}
	rows, err := figures.Read(string(page), string(guard))
	if err != nil {
		return nil, err
	}
	screen, err := os.ReadFile(filepath.Join(root, recording))
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"demo.svg": demo(string(screen)),
		"gaps.svg": gaps(rows),
		"load.svg": load(rows),
	}, nil
}

// record runs the demo on a terminal of 110 columns and keeps what is on the screen at the end.
func record() error {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	elect := filepath.Join(dir, "elect")
	if out, err := exec.Command("go", "build", "-o", elect, "./cmd/elect").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	// script gives the command a terminal, as the tests of terminals do.
	out, err := exec.Command("script", "--quiet", "--return", "--command", "stty cols 110 rows 30; "+elect+" demo --for 9s", os.DevNull).Output()
	if err != nil {
		return fmt.Errorf("script: %w", err)
	}
	return os.WriteFile(recording, []byte(lastScreen(string(out))), 0o644)
}
