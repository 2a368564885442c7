// Package page has the contract's rule for the pages of List and Members, as code for both sides:
// [All], [Records], [Record] and [Members] for their callers, [Cut] for Backends that read everything.
package page

import (
	"cmp"
	"context"
	"iter"
	"slices"
)

// A Call makes one call of a store, with a deadline.
type Call = func(ctx context.Context, call func(context.Context) error) error

// All ranges over everything that read, a Backend's List or Members, returns page by page. key
// returns what the pages are ordered by. After an error the range ends.
func All[T any](ctx context.Context, call Call,
	read func(ctx context.Context, from string, limit int) ([]T, error), key func(T) string) iter.Seq2[T, error] {
	const size = 500
	return func(yield func(T, error) bool) {
		for from := ""; ; {
			var page []T
			if err := call(ctx, func(ctx context.Context) (err error) {
				page, err = read(ctx, from, size)
				return err
			}); err != nil {
				var none T
				yield(none, err)
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

// Cut returns what List or Members return out of everything in a store: items with keys not
// less than from, in byte order of keys, up to limit. It reorders the slice.
func Cut[T any](all []T, from string, limit int, key func(T) string) []T {
	all = slices.DeleteFunc(all, func(v T) bool { return key(v) < from })
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return all[:min(len(all), max(limit, 0))]
}
