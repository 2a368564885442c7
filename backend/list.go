package backend

import (
	"context"
	"iter"
)

// All ranges over everything that read, a Backend's List or Members, returns page by page. It is
// for callers, and the contract's rule for pages in code. key returns what the pages are ordered
// by. call makes each call, with a deadline. After an error the range ends.
func All[T any](ctx context.Context, call func(context.Context, func(context.Context) error) error,
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
