//go:build linux || darwin

package file

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

// Observe reads the files of each election. An election with a bad file is shown as one
// that no process can have; a bid for it reports the reason.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.owner.Enter(ctx, ""); err != nil {
		return nil, fail("observe", err)
	}
	var first error
	bad := 0
	for _, l := range seen {
		if err := ctx.Err(); err != nil {
			return nil, fail("observe", err)
		}
		now, err := b.readLease(l.Election)
		if err != nil {
			err = fail(fmt.Sprintf("observe %q", l.Election), err)
			if !isFileError(err) {
				return nil, err
			}
			if bad++; first == nil {
				first = err
			}
			now = backend.Lease{Election: l.Election, Term: l.Term, Version: "unreadable", ObserveFor: backend.ExpiresInStore}
		}
		if l.Version == "" || now.Differs(l) {
			changed = append(changed, now)
		}
	}
	if bad == len(seen) {
		return nil, first
	}
	return changed, nil
}

// List reads the records, in order of names.
func (b *Backend) List(ctx context.Context, from string, limit int) (list []backend.Record, err error) {
	if err := b.owner.Enter(ctx, ""); err != nil {
		return nil, fail("list", err)
	}
	names, err := b.recordedNames(from)
	if err != nil {
		return nil, fail("list", err)
	}
	for _, name := range names {
		if len(list) >= limit || ctx.Err() != nil {
			break
		}
		s, err := b.read(name)
		if isFileError(err) {
			continue
		}
		if err != nil {
			return nil, fail("list", err)
		}
		l := b.lease(s)
		if l.Term == 0 {
			continue
		}
		r := s.rec
		if l.Vacant() {
			now := time.Now()
			r.endLeadership(backend.Failed, now, s.lapsed(now)) // the holder died at an unknown time
		}
		list = append(list, backend.Record{Lease: l, Elected: r.Elected, History: r.History})
	}
	return list, fail("list", ctx.Err())
}

// recordedNames returns the names of all elections with a record, from a name on, in order.
func (b *Backend) recordedNames(from string) (names []string, err error) {
	files, err := b.listFiles(recordSuffix)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name, ok := decode(file)
		if strings.Contains(file, "~") { // only the record has the whole name
			var r record
			text, err := readAll(filepath.Join(b.dir, file+recordSuffix))
			if isFileError(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			ok = json.Unmarshal(text, &r) == nil && encode(r.Election) == file
			name = r.Election
		}
		if ok && name >= from && backend.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
