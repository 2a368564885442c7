//go:build linux || darwin

package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/go-election/go-election/backend"
)

// Request writes requests, each into a file of its own. A holder does not touch that file;
// the next grant removes it. A request that stays behind has no effect, because it names
// its term.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.owner.Enter(ctx, ""); err != nil {
		return fail("request", err)
	}
	var errs []error
	for _, r := range requests {
		errs = append(errs, fail(fmt.Sprintf("request %q", r.Election), b.writeRequest(r)))
	}
	return backend.Join(errs...)
}

func (b *Backend) writeRequest(r backend.Request) error {
	l, err := b.readLease(r.Election)
	switch {
	case err != nil:
		return err
	case r.Term != l.Term || r.Term == 0:
		return fmt.Errorf("the election has term %d, not %d: %w", l.Term, r.Term, backend.ErrStale)
	case r.Kind == "":
		return b.removeRequest(r.Election)
	}
	text, err := json.Marshal(map[string]any{"election": r.Election, "term": r.Term, "kind": r.Kind, "id": r.ID, "nonce": string(r.Nonce)})
	if err != nil {
		return err
	}
	return b.replace(b.path(r.Election, requestSuffix), append(text, '\n'), false)
}

// readRequest reads the request of an election. A damaged one counts as none.
func (b *Backend) readRequest(name string) (r backend.Request, err error) {
	text, err := readAll(b.path(name, requestSuffix))
	if err != nil || text == nil {
		return r, err
	}
	var c struct {
		Election string              `json:"election"`
		Term     uint64              `json:"term"`
		Kind     backend.RequestKind `json:"kind"`
		ID       string              `json:"id"`
		Nonce    string              `json:"nonce"`
	}
	if json.Unmarshal(text, &c) != nil || c.Election != name {
		return r, nil
	}
	return backend.Request{Election: c.Election, Term: c.Term, Kind: c.Kind, ID: c.ID, Nonce: backend.Nonce(c.Nonce)}, nil
}

// removeRequest removes the request of an election, if there is one.
func (b *Backend) removeRequest(name string) error {
	if err := os.Remove(b.path(name, requestSuffix)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
