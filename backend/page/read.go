package page

import (
	"context"
	"iter"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

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
