// Report summarizes the output of one or several runs of "go test -json". While tests run,
// it prints the progress, and each failure at once and in full. At the end it prints a
// table: how many tests each package ran on which servers, and how many it left to the
// full tier.
//
//	go test -json -short ./... | go run ./scripts/report
//
// It exits with 1 if a test failed, or if none ran.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	every := flag.Duration("every", 15*time.Second, "time between two lines of progress")
	flag.Parse()
	r := newRun(os.Stdout)
	lines := make(chan []byte)
	go read(os.Stdin, lines)
	began, tick := time.Now(), time.Tick(*every)
	for {
		select {
		case line, more := <-lines:
			if !more {
				r.table()
				if !r.ok() {
					os.Exit(1)
				}
				return
			}
			r.handle(line)
		case <-tick:
			r.progress(time.Since(began))
		}
	}
}

// read sends each line.
func read(from io.Reader, lines chan<- []byte) {
	defer close(lines)
	for in := bufio.NewReader(from); ; {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			lines <- line
		}
		if err != nil {
			return
		}
	}
}

// An event is a line of "go test -json": see "go doc test2json".
type event struct {
	Action, Package, Test string
	Output                string
	Key, Value            string // of testing.TB.Attr
	Elapsed               float64
}

// handle handles a line of input.
func (r *run) handle(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		fmt.Fprintf(r.out, "%s", line) // not the output of a test
		return
	}
	if e.Package == "" { // a build: show the compiler's output if it fails
		r.build = append(r.build, e.Output)
		if e.Action == "build-fail" {
			r.show(r.build)
		}
		if e.Action != "build-output" {
			r.build = nil
		}
		return
	}
	p := r.pkg(e.Package)
	switch {
	case e.Test != "":
		p.test(e)
	case e.Action == "output":
		p.output = append(p.output, e.Output)
	case e.Action == "pass", e.Action == "fail", e.Action == "skip":
		p.end(e)
	}
}
