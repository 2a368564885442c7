// Pictures draws the pictures of README and of the pages as SVG, in light and dark: the demo from
// a recording of a terminal, the shares from a recording of real fleets, and the charts from the tables of docs/bench.md
// and docs/guard.md. It runs in the root of the repository.
//
//	go run ./scripts/pictures
//
// To record again, first the demo, which needs a terminal, or the fleets, on Redis and PostgreSQL:
//
//	script -qec "stty cols 110 rows 30; go run ./cmd/elect demo --for 9s" /dev/null | go run ./scripts/pictures -demo
//	go test ./electionshard -run TestFiveProcessesShareOnARealStore -count=1 -record $PWD/docs/images/shares.txt
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
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
	demo := flag.Bool("demo", false, "first keep the screen of a demo on standard input")
	flag.Parse()
	if *demo {
		output, err := io.ReadAll(os.Stdin)
		if err == nil {
			err = os.WriteFile(recording, []byte(lastScreen(string(output))), 0o644)
		}
		if err != nil {
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
		"shares.svg": shares(stores, moments),
	}, nil
}
