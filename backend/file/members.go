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
	"github.com/go-election/go-election/backend/clean"
)

// A member is the content of <nonce>.member.
type member struct {
	candidate
	Stage     string        `json:"stage,omitempty"`
	Elections string        `json:"elections,omitempty"`
	TTL       time.Duration `json:"ttl_ns"`
	Seen      time.Time     `json:"seen"`
}

// Announce writes this process's member record. The first time, it also removes the files
// of processes that ended long ago.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.owner.Enter(ctx, m.Nonce); err != nil {
		return fail("announce", err)
	}
	if !isNonce(string(m.Nonce)) {
		return fail("announce", fmt.Errorf("%w: the nonce %.40q is not 32 lower-case hex digits", backend.ErrInvalid, string(m.Nonce)))
	}
	text, err := json.MarshalIndent(member{candidate{m.ID, string(m.Nonce), m.Address, m.Metadata}, m.Stage, m.Elections, m.TTL, time.Now().UTC()}, "", "  ")
	if err == nil {
		err = b.replace(filepath.Join(b.dir, string(m.Nonce)+memberSuffix), append(text, '\n'), false)
	}
	if err != nil {
		return fail("announce", err)
	}
	b.mu.Lock()
	first := !b.cleaned
	b.cleaned = true
	b.mu.Unlock()
	if first {
		return fail("announce", b.removeOldMembers())
	}
	return nil
}

// removeOldMembers removes the files of processes that have not announced themselves for
// an hour: their member records, and temporary files from when they were killed.
func (b *Backend) removeOldMembers() error {
	nonces, err := b.listFiles(memberSuffix)
	for _, nonce := range nonces {
		if m, ok, _ := b.member(backend.Nonce(nonce)); ok && m.Age > max(2*m.TTL, time.Hour) {
			os.Remove(filepath.Join(b.dir, string(nonce)+memberSuffix))
		}
	}
	all, err2 := os.ReadDir(b.dir)
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
	if err := b.owner.Enter(ctx, ""); err != nil {
		return nil, fail("members", err)
	}
	nonces, err := b.listFiles(memberSuffix)
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
		m, ok, err := b.member(backend.Nonce(nonce))
		if err != nil && !isFileError(err) {
			return nil, fail("members", err)
		}
		if ok && m.Age <= 2*m.TTL {
			list = append(list, m)
		}
	}
	return list, nil
}

// member reads a member record. A missing or damaged one is not ok.
func (b *Backend) member(nonce backend.Nonce) (m backend.Member, ok bool, err error) {
	text, err := readAll(filepath.Join(b.dir, string(nonce)+memberSuffix))
	var r member
	if err != nil || text == nil || json.Unmarshal(text, &r) != nil || r.Nonce != string(nonce) || r.TTL < 0 || r.TTL > greatestTTL*24 {
		return m, false, err
	}
	return clean.Member(backend.Member{
		Candidate: backend.Candidate{ID: r.ID, Nonce: backend.Nonce(r.Nonce), Address: r.Address, Metadata: r.Metadata},
		Stage:     r.Stage, Elections: r.Elections, TTL: r.TTL, Age: time.Since(r.Seen),
	}), true, nil
}

func isNonce(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}
