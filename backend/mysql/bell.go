package mysql

import (
	"context"

	"github.com/go-election/go-election/backend"
)

type bell struct{ most int }

func (l *bell) close()                      {}
func (l *bell) granted([]backend.Answer)    {}
func (l *bell) released(names ...string)    {}
func (b *Backend) takeBell(context.Context) {}
func (b *Backend) ring(context.Context)     {}
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}
