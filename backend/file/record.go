//go:build linux || darwin

package file

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

const (
	layout    = 1
	maxRecord = 128 << 10 // of text, escaped
	pulseSize = 384       // within one page: a write is not torn by the death of its process
)

// A record is what stands in <name>.json: the present leadership, and past ones. It is
// written at each grant and release, by whoever has the lock, and replaced as a
// whole.
type record struct {
	Layout    int                  `json:"layout"`
	Election  string               `json:"election"`
	Term      uint64               `json:"term"`
	Holder    *person              `json:"holder"` // null: nobody
	TTL       time.Duration        `json:"ttl_ns"`
	Renew     time.Duration        `json:"renew_ns"`
	Lock      string               `json:"lock"` // the file that the holder has locked
	Heartbeat uint64               `json:"heartbeat,string"`
	Written   time.Time            `json:"written"`
	Elected   time.Time            `json:"elected"`
	End       backend.End          `json:"end,omitempty"`
	LastID    string               `json:"last_id,omitempty"`
	Last      string               `json:"last_nonce,omitempty"`
	MovedTo   string               `json:"moved_to,omitempty"`
	From      string               `json:"moved_from,omitempty"`
	History   []backend.Leadership `json:"history,omitempty"`
}

// A person is a candidate.
type person struct {
	ID       string `json:"id"`
	Nonce    string `json:"nonce"`
	Address  string `json:"address,omitempty"`
	Metadata string `json:"metadata,omitempty"`
}

func (r record) held() bool { return r.Holder != nil }

// close notes the end of the present leadership, if there is one, whose lease ran out so long
// ago; 0: it has not.
func (r *record) close(how backend.End, now time.Time, lapsed time.Duration) {
	if r.Holder == nil {
		return
	}
	r.History = backend.Remember(r.History, backend.Leadership{Term: r.Term, ID: r.Holder.ID, From: r.Elected}.Close(how, now, lapsed))
	r.End, r.LastID, r.Last = how, r.Holder.ID, r.Holder.Nonce
	r.Holder, r.TTL, r.Renew, r.Elected = nil, 0, 0, time.Time{}
}

// A pulse is the text of <name>.lock: the newest heartbeat of the leadership, and the
// greatest term that this file knows. It is written in place by whoever has the
// lock, and is on the disk before a term is used.
type pulse struct {
	Term      uint64        `json:"term"`
	Nonce     string        `json:"nonce"`
	Heartbeat uint64        `json:"heartbeat,string"`
	TTL       time.Duration `json:"ttl_ns"`
	Renew     time.Duration `json:"renew_ns"`
	Lock      string        `json:"lock"` // this very file: a copy is none
	Written   time.Time     `json:"written"`
}

func (p pulse) write(f *os.File) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%-*s%08x\n", pulseSize-9, text, crc32.ChecksumIEEE(text))
	if len(line) != pulseSize {
		return fmt.Errorf("%w: a pulse has %d bytes: %q", backend.ErrInvalid, len(line), text)
	}
	_, err = f.WriteAt([]byte(line), 0)
	return err
}

// readPulse returns the zero pulse if there is none, if it is damaged, or if it
// was written to another file.
func readPulse(f *os.File, id string) pulse {
	for range 5 { // it may be read while it is written
		var p pulse
		var line [pulseSize]byte
		if n, _ := f.ReadAt(line[:], 0); n < pulseSize {
			return pulse{}
		}
		text := strings.TrimRight(string(line[:pulseSize-9]), " ")
		if fmt.Sprintf("%08x\n", crc32.ChecksumIEEE([]byte(text))) != string(line[pulseSize-9:]) {
			continue
		}
		if json.Unmarshal([]byte(text), &p) != nil || !same(p.Lock, id) {
			return pulse{}
		}
		return p
	}
	return pulse{}
}

// readRecord reads an election's record. known is false if there is none; a
// record that is damaged is an empty one.
func (b *Backend) readRecord(name string) (r record, known bool, err error) {
	text, err := readAll(b.path(name, recordSuffix))
	if err != nil || text == nil {
		return record{}, false, err
	}
	if json.Unmarshal(text, &r) != nil || r.Election != name || r.Layout != layout || r.Term == 0 {
		return record{}, true, nil
	}
	r.Written, r.Elected, r.History = backend.CleanTime(r.Written), backend.CleanTime(r.Elected), backend.CleanHistory(r.History)
	return r, true, nil
}

func (b *Backend) writeRecord(r record, lasting bool) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return b.replace(b.path(r.Election, recordSuffix), append(text, '\n'), lasting || r.MovedTo != "" || r.From != "") // a seal must outlive a power failure
}

// replace puts a whole new file at path, in one step. lasting: it is on the disk
// when this returns.
func (b *Backend) replace(path string, text []byte, lasting bool) error {
	temp, err := b.temp(text, lasting)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	if lasting {
		return b.syncDir()
	}
	return nil
}

// temp writes a new file under a name that nobody else uses.
func (b *Backend) temp(text []byte, lasting bool) (path string, err error) {
	var random [12]byte
	rand.Read(random[:])
	path = filepath.Join(b.dir, tempPrefix+hex.EncodeToString(random[:]))
	f, _, err := open(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return "", err
	}
	if _, err = f.Write(text); err == nil && lasting {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		os.Remove(path)
	}
	return path, err
}

// syncDir makes new names in the directory last.
func (b *Backend) syncDir() error {
	d, err := os.Open(b.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// heartbeat returns a fresh one, never 0.
func heartbeat() uint64 { return mathrand.Uint64() | 1 }
