//go:build linux || darwin

package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/register"
)

// A store is the directory as a register: its value is the file with the greatest number. It implements
// [register.Register].
type store struct {
	dir    string
	maxTTL time.Duration

	turn    chan struct{} // held while the fields below are used: a mutex that gives way to a context
	dirID   string        // identity of the directory that is known to be in use; "": it has just come to the path
	doubt   string        // what was found that may not be what was written last; "": nothing
	since   time.Time     // when doubt was first found
	settled bool          // doubt has lasted for the greatest TTL, or nobody could lead
	shared  int           // descriptor of the directory, locked; -1: not locked
}

func newStore(dir string, maxTTL time.Duration) *store {
	return &store{dir: dir, maxTTL: maxTTL, turn: make(chan struct{}, 1), shared: -1}
}

// lock waits for s.turn.
func (s *store) lock(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *store) unlock() { <-s.turn }

// Names of the value's files. The number grows with each swap.
const (
	valuePrefix = "leases-"
	valueSuffix = ".json"
	tempPrefix  = ".new-"

	oldTemp = time.Hour // after which what a dead process has left is removed
)

func (s *store) path(number uint64) string {
	return filepath.Join(s.dir, valuePrefix+strconv.FormatUint(number, 10)+valueSuffix)
}

// numberOf returns the number in a file's name; 0 if it is no name of a value.
func numberOf(name string) uint64 {
	text, ok := strings.CutPrefix(name, valuePrefix)
	text, ok2 := strings.CutSuffix(text, valueSuffix)
	n, err := strconv.ParseUint(text, 10, 62) // one that is greater is none of this package
	if !ok || !ok2 || err != nil || strconv.FormatUint(n, 10) != text {
		return 0
	}
	return n
}

// newest returns the greatest number among names; 0: there is no value.
func newest(names []string) (greatest uint64) {
	for _, name := range names {
		greatest = max(greatest, numberOf(name))
	}
	return greatest
}

// read reads the file with the greatest number, which another process may replace meanwhile.
func (s *store) read() (c content, err error) {
	for range 100 {
		names, err := s.names()
		number := newest(names)
		if err != nil || number == 0 {
			return content{}, err
		}
		f, err := open(s.path(number))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return content{}, err
		}
		id, err := fileID(f)
		text, err2 := io.ReadAll(io.LimitReader(f, int64(limits.MaxBytes+maxTrailer)))
		f.Close()
		if err := errors.Join(err, err2); err != nil {
			return content{}, err
		}
		return parse(number, text, id), nil
	}
	return content{}, fmt.Errorf("%w: other processes kept replacing the file", backend.ErrUnavailable)
}

// current reads the value, and decides whether it can be believed. The caller holds s.turn. What cannot is read once more:
// the first value of a directory is there before anybody locks that, but it may have come after the first reading.
func (s *store) current() (c content, err error) {
	if c, err = s.believe(); err != nil {
		c, err = s.believe()
	}
	return c, err
}

func (s *store) believe() (c content, err error) {
	before, err := identityOf(s.dir)
	if err != nil {
		return c, err
	}
	if c, err = s.read(); err != nil {
		return c, err
	}
	now, err := identityOf(s.dir)
	if err == nil && now != before {
		err = errReplaced
	}
	if err != nil {
		return c, err
	}
	return c, s.judge(&c, now)
}

var errReplaced = fmt.Errorf("%w: the directory was replaced meanwhile", backend.ErrUnavailable)

// judge returns an error while a process may lead by a value that this one does not see: there is none, or
// it is a copy, or the directory is another one (see the package's comment).
func (s *store) judge(c *content, dir string) error {
	known := dir == s.dirID
	if c.original && known && c.maxTTL == s.maxTTL {
		s.doubt = ""
		return nil
	}
	if what := dir + " " + c.version; what != s.doubt {
		s.doubt, s.since, s.settled = what, time.Now(), false
	}
	if s.settled {
		return nil
	}
	free := false
	if known {
		led, err := s.isLed()
		if err != nil {
			return err
		}
		free = !led
	}
	if left := s.maxTTL - time.Since(s.since); !free && left >= 0 {
		return c.doubtful(s, known, left)
	}
	s.dirID, s.settled = dir, true
	return nil
}

// doubtful says why nobody can lead for a while, or until an operator acts.
func (c *content) doubtful(s *store, known bool, left time.Duration) error {
	why := "the leases were deleted or damaged"
	switch {
	case !known:
		why = "the directory was replaced, or a link to it switched"
	case c.original:
		return fmt.Errorf("%w: max_ttl is %v, and that of %s is %v: all members need the same", backend.ErrDenied, s.maxTTL, s.dir, c.maxTTL)
	case c.version != "":
		why = "the leases were restored from a copy"
	}
	return fmt.Errorf("%w: %s: %s; nobody leads before %v have passed", backend.ErrUnavailable, s.dir, why, left.Round(time.Second))
}

// Get implements [register.Register].
func (s *store) Get(ctx context.Context) (value []byte, version string, err error) {
	if err := s.lock(ctx); err != nil {
		return nil, "", err
	}
	defer s.unlock()
	c, err := s.current()
	return c.value, c.version, fail("read", err)
}

// Swap implements [register.Register].
func (s *store) Swap(ctx context.Context, version string, value []byte) (now string, err error) {
	if err := s.lock(ctx); err != nil {
		return "", err
	}
	began := time.Now()
	c, err := s.current()
	dir := s.dirID
	s.unlock()
	if err == nil && c.version != version {
		err = register.ErrChanged
	}
	if err == nil {
		now, err = s.add(dir, c.number+1, value, began)
	}
	return now, fail("write", err)
}

// add writes the value with this number, unless there is one. The name appears in one step, with all of the
// text on the disk.
func (s *store) add(dir string, number uint64, value []byte, began time.Time) (version string, err error) {
	temp, version, err := s.write(number, value)
	if temp != "" {
		defer os.Remove(temp)
	}
	if err != nil {
		return "", err
	}
	if numberOf(filepath.Base(s.path(number))) == 0 {
		return "", fmt.Errorf("%w: %s is none of this package: remove it", backend.ErrDenied, s.path(number-1))
	}
	if time.Since(began) > s.maxTTL/2 { // all may have been deleted since, and made anew with small numbers
		return "", fmt.Errorf("%w: the disk has taken too long", backend.ErrUnavailable)
	}
	err = os.Link(temp, s.path(number))
	if errors.Is(err, os.ErrExist) {
		return "", register.ErrChanged
	}
	if err != nil {
		return "", err
	}

	// Somebody may have come first, and have removed that file again.
	names, err := s.sync()
	if err != nil {
		return "", err
	}
	if newest(names) > number {
		return "", register.ErrChanged
	}
	if now, err := identityOf(s.dir); err != nil {
		return "", err
	} else if now != dir {
		return "", errReplaced
	}
	s.clean(number, names)
	return version, nil
}

// write writes a value under a temporary name, and its text to the disk.
func (s *store) write(number uint64, value []byte) (path, version string, err error) {
	f, err := os.CreateTemp(s.dir, tempPrefix)
	if err != nil {
		return "", "", err
	}
	id, err := fileID(f)
	c := content{number: number, value: value, file: id, maxTTL: s.maxTTL}
	if err == nil {
		_, err = f.Write(c.encode())
	}
	if err == nil {
		err = f.Sync()
	}
	return f.Name(), c.version, errors.Join(err, f.Close())
}

// names returns those of all files in the directory.
func (s *store) names() ([]string, error) {
	d, err := os.Open(s.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// sync lists the directory, and writes new names in it to the disk.
func (s *store) sync() ([]string, error) {
	d, err := os.Open(s.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	return names, errors.Join(err, d.Sync())
}

// clean removes the values before this one, and what processes that have ended were writing.
func (s *store) clean(number uint64, names []string) {
	for _, name := range names {
		if n := numberOf(name); n > 0 && n < number {
			os.Remove(s.path(n))
		} else if strings.HasPrefix(name, tempPrefix) {
			s.removeOld(name)
		}
	}
}

// removeOld removes what a process that has ended has left long ago.
func (s *store) removeOld(name string) {
	path := filepath.Join(s.dir, name)
	if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > oldTemp {
		os.Remove(path)
	}
}

// Close implements [register.Register].
func (s *store) Close() error { return nil }

// A content is what the file of a value says. The zero content: there is none, or it is damaged.
type content struct {
	number   uint64
	value    []byte
	version  string // number and checksum; "": no value
	file     string // identity of the file that it was written to
	original bool   // it is in that file
	maxTTL   time.Duration
}

// maxTrailer is more than the last line has.
const maxTrailer = 512

// A trailer is the last line.
type trailer struct {
	File   string `json:"file"`    // device, inode and birth: those of a copy differ
	MaxTTL string `json:"max_ttl"` // of the process that wrote it
	Sum    string `json:"sum"`
}

// encode returns the text of the file, and sets the version.
func (c *content) encode() []byte {
	last := trailer{File: c.file, MaxTTL: c.maxTTL.String()}
	last.Sum = last.sum(c.number, c.value)
	line, err := json.Marshal(last)
	if err != nil {
		panic(err) // cannot happen: it has texts only
	}
	c.version = versionOf(c.number, last.Sum)
	return append(append(append(bytes.Clone(c.value), '\n'), line...), '\n')
}

func (t *trailer) sum(number uint64, value []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %q %q ", number, t.File, t.MaxTTL)
	h.Write(value)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func versionOf(number uint64, sum string) string { return fmt.Sprintf("%d-%s", number, sum) }

// parse reads the text of a file, which may come from anybody.
func parse(number uint64, text []byte, file string) content {
	damaged := content{number: number}
	body, ok := bytes.CutSuffix(text, []byte("\n"))
	end := bytes.LastIndexByte(body, '\n')
	var last trailer
	if !ok || end < 0 || len(body)-end > maxTrailer || json.Unmarshal(body[end+1:], &last) != nil {
		return damaged
	}
	value := body[:end]
	maxTTL, err := time.ParseDuration(last.MaxTTL)
	if err != nil || last.Sum != last.sum(number, value) {
		return damaged
	}
	return content{number, value, versionOf(number, last.Sum), last.File, last.File == file, maxTTL}
}
