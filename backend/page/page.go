// Package page has the contract's rule for the pages of List and Members, as code for both sides:
// [All], [Records], [Record] and [Members] for their callers, [Cut] for Backends that read everything.
package page

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A Call makes one call of a store, with a deadline.
type Call = func(ctx context.Context, call func(context.Context) error) error

// All ranges over what read (List or Members) returns, page by page, in order of key, until an error.
func All[T any](
	ctx context.Context, call Call,
	read func(ctx context.Context, from string, limit int) ([]T, error), key func(T) string,
) iter.Seq2[T, error] {
	const size = 500
	return func(yield func(T, error) bool) {
		for from := ""; ; {
			var page []T
			err := call(ctx, func(ctx context.Context) (err error) {
				page, err = read(ctx, from, size)
				return err
			})
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			from = key(page[len(page)-1]) + "\x00"
		}
	}
}

// Cut returns what List or Members return, out of everything in a store. It reorders the slice.
func Cut[T any](all []T, from string, limit int, key func(T) string) []T {
	all = slices.DeleteFunc(all, func(v T) bool { return key(v) < from })
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return all[:min(len(all), max(limit, 0))]
}

// Records ranges over all records of a store, cleaned. call makes each call: see [All].
func Records(ctx context.Context, call Call, b backend.Backend) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		for record, err := range All(ctx, call, b.List, func(r backend.Record) string { return r.Election }) {
			if !yield(clean.Record(record), err) {
				return
			}
		}
	}
}

// Record returns the record of one election, cleaned. Its Term is 0 if nobody has led yet.
func Record(ctx context.Context, call Call, b backend.Backend, name string) (backend.Record, error) {
	record := backend.Record{Lease: backend.Lease{Election: name}}
	err := call(ctx, func(ctx context.Context) error {
		list, err := b.List(ctx, name, 1)
		if err == nil && len(list) > 0 && list[0].Election == name {
			record = clean.Record(list[0])
		}
		return err
	})
	return record, err
}

// Members returns all members of a store, cleaned.
func Members(ctx context.Context, call Call, b backend.Backend) (list []backend.Member, err error) {
	for m, err := range All(ctx, call, b.Members, func(m backend.Member) string { return string(m.Nonce) }) {
		if err != nil {
			return nil, err
		}
		list = append(list, clean.Member(m))
	}
	return list, nil
}
