// Pictures draws the pictures of README and of the pages as SVG, in light and dark: the demo from
// a recording of a terminal, the shares from a recording of real fleets, and the charts from the tables of docs/bench.md
// and docs/guard.md. It runs in the root of the repository.
//
//	go run ./scripts/pictures
//	go run ./scripts/pictures -record demo     # first record the demo again (Linux, with script(1))
//	go run ./scripts/pictures -record shares   # first record the fleets again (Redis and PostgreSQL, two minutes)
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
	images         = "docs/images"
	recording      = images + "/demo.txt"
	fleetRecording = images + "/shares.txt"
)

func main() {
	log.SetFlags(0)
	again := flag.String("record", "", "first record again: demo or shares")
	flag.Parse()
	var err error
	switch *again {
	case "":
	case "demo":
		err = record()
	case "shares":
		err = recordFleets()
	default:
		err = fmt.Errorf("there is no recording %q", *again)
	}
	if err != nil {
		log.Fatal("pictures: ", err)
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
	fleets, err := os.ReadFile(filepath.Join(root, fleetRecording))
	if err != nil {
		return nil, err
	}
	stores, moments, err := readShares(string(fleets))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fleetRecording, err)
	}
	return map[string]string{
		"demo.svg":   demo(string(screen)),
		"gaps.svg":   gaps(rows),
		"load.svg":   load(rows),
		"shares.svg": shares(stores, moments),
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

// recordFleets runs the test of five processes on real stores, which writes who leads how many shards.
func recordFleets() error {
	file, err := filepath.Abs(fleetRecording)
	if err != nil {
		return err
	}
	out, err := exec.Command("go", "test", "./electionshard", "-run", "TestFiveProcessesShareOnARealStore", "-count=1", "-record", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test: %w\n%s", err, out)
	}
	return nil
}
