//go:build linux || darwin

package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

// Observe reads the files of each election.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.guard.Enter(ctx, ""); err != nil {
		return nil, fail("observe", err)
	}
	var first error
	bad := 0
	for _, l := range seen {
		if err := ctx.Err(); err != nil {
			return nil, fail("observe", err)
		}
		now, err := b.look(l.Election)
		if err != nil {
			err = fail(fmt.Sprintf("observe %q", l.Election), err)
			if !alone(err) {
				return nil, err
			}
			if bad++; first == nil {
				first = err
			}
			now = backend.Lease{Election: l.Election, Term: l.Term, ObserveFor: backend.ExpiresInStore} // a bid says why
		}
		if l.Heartbeat == 0 || now.Differs(l) {
			changed = append(changed, now)
		}
	}
	if bad == len(seen) {
		return nil, first
	}
	return changed, nil
}

// Ask writes a request into a file of its own, which no holder of a lock touches
// before its next grant. That it names its term makes it harmless afterwards.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.guard.Enter(ctx, ""); err != nil {
		return fail("ask", err)
	}
	var errs []error
	for _, w := range requests {
		errs = append(errs, fail(fmt.Sprintf("ask %q", w.Election), b.ask(w)))
	}
	return errors.Join(errs...)
}

func (b *Backend) ask(w backend.Request) error {
	l, err := b.look(w.Election)
	switch {
	case err != nil:
		return err
	case w.Term != l.Term || w.Term == 0:
		return fmt.Errorf("the election has term %d, not %d: %w", l.Term, w.Term, backend.ErrStale)
	case w.Kind == "":
		return b.withdraw(w.Election)
	}
	text, err := json.Marshal(map[string]any{"election": w.Election, "term": w.Term, "kind": w.Kind, "id": w.ID, "nonce": w.Nonce})
	if err != nil {
		return err
	}
	return b.replace(b.path(w.Election, requestSuffix), append(text, '\n'), false)
}

// withdraw removes any request.
func (b *Backend) withdraw(name string) error {
	if err := os.Remove(b.path(name, requestSuffix)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// List reads the records, in order of names.
func (b *Backend) List(ctx context.Context, from string, limit int) (list []backend.Record, err error) {
	if err := b.guard.Enter(ctx, ""); err != nil {
		return nil, fail("list", err)
	}
	files, err := b.files(recordSuffix)
	if err != nil {
		return nil, fail("list", err)
	}
	var names []string
	for _, file := range files {
		name, ok := decode(file)
		if strings.Contains(file, "~") { // only the record knows the whole name
			var r record
			text, err := readAll(filepath.Join(b.dir, file+recordSuffix))
			if alone(err) {
				continue
			}
			if err != nil {
				return nil, fail("list", err)
			}
			ok = json.Unmarshal(text, &r) == nil && encode(r.Election) == file
			name = r.Election
		}
		if ok && name >= from && backend.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if len(list) >= limit || ctx.Err() != nil {
			break
		}
		s, err := b.read(name)
		if alone(err) {
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
			r.close(backend.Failed, now, s.lapsed(now)) // dead: nobody knows since when
		}
		list = append(list, backend.Record{Lease: l, Elected: r.Elected, History: r.History})
	}
	return list, fail("list", ctx.Err())
}

// files returns the names of the files of one kind, without their suffix.
func (b *Backend) files(suffix string) (names []string, err error) {
	d, err := os.Open(b.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	for _, name := range all {
		if base, ok := strings.CutSuffix(name, suffix); ok && !strings.HasPrefix(base, tempPrefix) {
			names = append(names, base)
		}
	}
	return names, err
}

// A member is what stands in <nonce>.member.
type member struct {
	person
	Stage     string        `json:"stage,omitempty"`
	Elections string        `json:"elections,omitempty"`
	TTL       time.Duration `json:"ttl_ns"`
	Seen      time.Time     `json:"seen"`
}

// Announce writes this process's member record, and removes those of processes
// that were last seen long ago when it does so for the first time.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.guard.Enter(ctx, m.Nonce); err != nil {
		return fail("announce", err)
	}
	if !isNonce(m.Nonce) {
		return fail("announce", fmt.Errorf("%w: the nonce %.40q is not 32 lower-case hex digits", backend.ErrInvalid, m.Nonce))
	}
	text, err := json.MarshalIndent(member{person{m.ID, m.Nonce, m.Address, m.Metadata}, m.Stage, m.Elections, m.TTL, time.Now().UTC()}, "", "  ")
	if err == nil {
		err = b.replace(filepath.Join(b.dir, m.Nonce+memberSuffix), append(text, '\n'), false)
	}
	if err != nil {
		return fail("announce", err)
	}
	b.mu.Lock()
	first := !b.swept
	b.swept = true
	b.mu.Unlock()
	if first {
		return fail("announce", b.sweep())
	}
	return nil
}

// sweep removes what is left of processes that have not been seen for an hour.
func (b *Backend) sweep() error {
	nonces, err := b.files(memberSuffix)
	for _, nonce := range nonces {
		if m, ok, _ := b.member(nonce); ok && m.Age > max(2*m.TTL, time.Hour) {
			os.Remove(filepath.Join(b.dir, nonce+memberSuffix))
		}
	}
	all, err2 := os.ReadDir(b.dir) // and what was being written when its process was killed
	for _, f := range all {
		if !strings.HasPrefix(f.Name(), tempPrefix) {
			continue
		}
		if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.Remove(filepath.Join(b.dir, f.Name()))
		}
	}
	return errors.Join(err, err2)
}

// Members reads the member records, in order of nonces.
func (b *Backend) Members(ctx context.Context, from string, limit int) (list []backend.Member, err error) {
	if err := b.guard.Enter(ctx, ""); err != nil {
		return nil, fail("members", err)
	}
	nonces, err := b.files(memberSuffix)
	if err != nil {
		return nil, fail("members", err)
	}
	slices.Sort(nonces)
	for _, nonce := range nonces {
		if len(list) >= limit {
			break
		}
		if nonce < from || !isNonce(nonce) {
			continue
		}
		m, ok, err := b.member(nonce)
		if err != nil && !alone(err) {
			return nil, fail("members", err)
		}
		if ok && m.Age <= 2*m.TTL {
			list = append(list, m)
		}
	}
	return list, nil
}

// member reads a member record. One that is gone, or damaged, is none.
func (b *Backend) member(nonce string) (m backend.Member, ok bool, err error) {
	text, err := readAll(filepath.Join(b.dir, nonce+memberSuffix))
	var r member
	if err != nil || text == nil || json.Unmarshal(text, &r) != nil || r.Nonce != nonce || r.TTL < 0 || r.TTL > greatestTTL*24 {
		return m, false, err
	}
	return backend.CleanMember(backend.Member{
		Candidate: backend.Candidate{ID: r.ID, Nonce: r.Nonce, Address: r.Address, Metadata: r.Metadata},
		Stage:     r.Stage, Elections: r.Elections, TTL: r.TTL, Age: time.Since(r.Seen),
	}), true, nil
}

func isNonce(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}
