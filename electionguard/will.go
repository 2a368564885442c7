package electionguard

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

// A first is the first line that a guard reads.
type first struct {
	Store          []byte
	Grace          time.Duration
	IgnoreChildren bool
}

// A will is text for the guard, in lines: what the program may hold.
//
//	self NONCE TTL
//	holds TERM "ELECTION"
//	released "ELECTION"
//	end
type will struct{ lines []string }

func (w *will) self(nonce backend.Nonce, ttl time.Duration) {
	w.add("self %s %d", string(nonce), int64(ttl))
}
func (w *will) holds(election string, term uint64) { w.add("holds %d %q", term, election) }
func (w *will) released(election string)           { w.add("released %q", election) }
func (w *will) end()                               { w.add("end") }

func (w *will) add(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...)+"\n")
}

// maxWhole is the most that the kernel writes to a pipe as a whole or not at all: pipe(7), PIPE_BUF.
const maxWhole = 4096

// parts returns the text in pieces of whole lines, none of which the kernel writes in part.
func (w *will) parts() (parts [][]byte) {
	var part []byte
	for _, l := range w.lines {
		if len(part)+len(l) > maxWhole {
			parts, part = append(parts, part), nil
		}
		part = append(part, l...)
	}
	if part != nil {
		parts = append(parts, part)
	}
	return parts
}

// An estate is what the guard knows of the program.
type estate struct {
	first
	nonce backend.Nonce
	ttl   time.Duration
	terms map[string]uint64 // by election
	ended bool              // the program needs no guard any more
}

// readFirst reads the first line.
func readFirst(r *bufio.Reader) (e *estate, err error) {
	e = &estate{terms: map[string]uint64{}}
	line, err := r.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &e.first)
	}
	return e, err
}

// read reads what the program tells, until the pipe is closed or the program needs no guard. It tells
// changed which election is held, "" for none.
func (e *estate) read(r *bufio.Reader, changed func(election string, ttl time.Duration)) error {
	for !e.ended {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		e.apply(strings.TrimSuffix(line, "\n"))
		first := ""
		for first = range e.terms {
			break
		}
		changed(first, e.ttl)
	}
	return nil
}

func (e *estate) apply(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "self":
		nonce, ttl, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(ttl, 10, 64)
		if err == nil {
			e.nonce, e.ttl = backend.Nonce(nonce), time.Duration(n)
		}
	case "holds":
		term, name, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(term, 10, 64)
		if name, quoted := strconv.Unquote(name); err == nil && quoted == nil {
			e.terms[name] = n
		}
	case "released":
		if name, err := strconv.Unquote(rest); err == nil {
			delete(e.terms, name)
		}
	case "end":
		e.ended = true
	}
}

// held returns what the program may hold, in byte order of names.
func (e *estate) held() (held []backend.Held) {
	for _, name := range slices.Sorted(maps.Keys(e.terms)) {
		held = append(held, backend.Held{Election: name, Holder: backend.Candidate{Nonce: e.nonce}, Term: e.terms[name], TTL: e.ttl, End: backend.Failed})
	}
	return held
}
