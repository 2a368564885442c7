//go:build linux || darwin

package file

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

const (
	layout       = 1
	maxRecord    = 128 << 10 // of text, escaped
	lockLineSize = 384       // within one page, so that the death of the process cannot tear a write
)

// A record is the content of <name>.json: the current leadership, and past ones. The
// holder of the lock replaces it as a whole at each grant and release.
type record struct {
	Layout    int                  `json:"layout"`
	Election  string               `json:"election"`
	Term      uint64               `json:"term"`
	Holder    *candidate           `json:"holder"` // null: vacant
	TTL       time.Duration        `json:"ttl_ns"`
	Renew     time.Duration        `json:"renew_ns"`
	Lock      string               `json:"lock"` // identity of the file that the holder has locked
	Heartbeat uint64               `json:"heartbeat,string"`
	Written   time.Time            `json:"written"`
	Elected   time.Time            `json:"elected"`
	End       backend.End          `json:"end,omitempty"`
	LastID    string               `json:"last_id,omitempty"`
	MovedTo   string               `json:"moved_to,omitempty"`
	MovedFrom string               `json:"moved_from,omitempty"`
	History   []backend.Leadership `json:"history,omitempty"`
}

// A candidate is a [backend.Candidate] in JSON.
type candidate struct {
	ID       string `json:"id"`
	Nonce    string `json:"nonce"`
	Address  string `json:"address,omitempty"`
	Metadata string `json:"metadata,omitempty"`
}

func (r record) held() bool { return r.Holder != nil }

// endLeadership records the end of the current leadership, if there is one. lapsed is how
// long ago its lease expired; 0 if it has not.
func (r *record) endLeadership(how backend.End, now time.Time, lapsed time.Duration) {
	if r.Holder == nil {
		return
	}
	r.History = clean.Remember(r.History, backend.Leadership{Term: r.Term, ID: r.Holder.ID, From: r.Elected}, how, now, lapsed)
	r.End, r.LastID = how, r.Holder.ID
	r.Holder, r.TTL, r.Renew, r.Elected = nil, 0, 0, time.Time{}
}

// A lockLine is the text of <name>.lock: the newest heartbeat of the leadership, and the
// greatest term that this file knows. The holder of the lock writes it in place. It is on
// the disk before the leader learns of its term.
type lockLine struct {
	Term      uint64        `json:"term"`
	Nonce     string        `json:"nonce"`
	Heartbeat uint64        `json:"heartbeat,string"`
	TTL       time.Duration `json:"ttl_ns"`
	Renew     time.Duration `json:"renew_ns"`
	Lock      string        `json:"lock"` // identity of this file: the line does not count in a copy
	Written   time.Time     `json:"written"`
}

func (l lockLine) write(f *os.File) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%-*s%08x\n", lockLineSize-9, text, crc32.ChecksumIEEE(text))
	if len(line) != lockLineSize {
		return fmt.Errorf("%w: the text of a lock file has %d bytes: %q", backend.ErrInvalid, len(line), text)
	}
	_, err = f.WriteAt([]byte(line), 0)
	return err
}

// readLockLine returns the zero lockLine if there is none, if it is damaged, or if it was
// written to another file.
func readLockLine(f *os.File, id string) lockLine {
	for range 5 { // the holder may be writing it
		var l lockLine
		var line [lockLineSize]byte
		if n, _ := f.ReadAt(line[:], 0); n < lockLineSize {
			return lockLine{}
		}
		text := strings.TrimRight(string(line[:lockLineSize-9]), " ")
		if fmt.Sprintf("%08x\n", crc32.ChecksumIEEE([]byte(text))) != string(line[lockLineSize-9:]) {
			continue
		}
		if json.Unmarshal([]byte(text), &l) != nil || !sameFile(l.Lock, id) {
			return lockLine{}
		}
		return l
	}
	return lockLine{}
}

// readRecord reads an election's record. exists is false if there is none. A damaged
// record is returned empty.
func (b *Backend) readRecord(name string) (r record, exists bool, err error) {
	text, err := readAll(b.path(name, recordSuffix))
	if err != nil || text == nil {
		return record{}, false, err
	}
	if json.Unmarshal(text, &r) != nil || r.Election != name || r.Layout != layout || r.Term == 0 {
		return record{}, true, nil
	}
	r.Written, r.Elected, r.History = clean.Time(r.Written), clean.Time(r.Elected), clean.History(r.History)
	return r, true, nil
}

// writeRecord replaces an election's record. A record with the marks of a migration is
// always durable, because a seal must outlive a power failure.
func (b *Backend) writeRecord(r record, durable bool) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return b.replace(b.path(r.Election, recordSuffix), append(text, '\n'), durable || r.MovedTo != "" || r.MovedFrom != "")
}

// heartbeat returns a fresh heartbeat, never 0.
func heartbeat() uint64 { return rand.Uint64() | 1 }
