package electionguard

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

// A setup is the first line that a guard reads.
type setup struct {
	Store []byte
	Grace time.Duration
}

// A report is text for the guard, in lines: what the program may hold.
//
//	self NONCE TTL
//	holds TERM "ELECTION"
//	released "ELECTION"
//	end
type report struct{ lines []string }

func (r *report) self(nonce backend.Nonce, ttl time.Duration) {
	r.add("self %s %d", string(nonce), int64(ttl))
}
func (r *report) holds(election string, term uint64) { r.add("holds %d %q", term, election) }
func (r *report) released(election string)           { r.add("released %q", election) }
func (r *report) end()                               { r.add("end") }

func (r *report) add(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...)+"\n")
}

// maxWhole is the most that the kernel writes to a pipe as a whole or not at all: pipe(7), PIPE_BUF.
const maxWhole = 4096

// parts returns the text in pieces of whole lines, none of which the kernel writes in part.
func (r *report) parts() (parts [][]byte) {
	var part []byte
	for _, l := range r.lines {
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

// The holdings are what the guard knows of the program.
type holdings struct {
	setup
	nonce backend.Nonce
	ttl   time.Duration
	terms map[string]uint64 // by election
	ended bool              // the program needs no guard any more
}

// readSetup reads the first line.
func readSetup(r *bufio.Reader) (h *holdings, err error) {
	h = &holdings{terms: map[string]uint64{}}
	line, err := r.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &h.setup)
	}
	return h, err
}

func (h *holdings) apply(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "self":
		nonce, ttl, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(ttl, 10, 64)
		if err == nil {
			h.nonce, h.ttl = backend.Nonce(nonce), time.Duration(n)
		}
	case "holds":
		term, name, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(term, 10, 64)
		if name, quoted := strconv.Unquote(name); err == nil && quoted == nil {
			h.terms[name] = n
		}
	case "released":
		if name, err := strconv.Unquote(rest); err == nil {
			delete(h.terms, name)
		}
	case "end":
		h.ended = true
	}
}

// held returns what the program may hold, in byte order of names.
func (h *holdings) held() (held []backend.Held) {
	for _, name := range slices.Sorted(maps.Keys(h.terms)) {
		held = append(held, backend.Held{Election: name, Holder: backend.Candidate{Nonce: h.nonce}, Term: h.terms[name], TTL: h.ttl, End: backend.Failed})
	}
	return held
}
