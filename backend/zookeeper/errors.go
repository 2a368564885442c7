package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
)

var errSessionEnded = fmt.Errorf("%w: the session has just ended", backend.ErrUnavailable)

var errBusy = fmt.Errorf("%w: other processes kept changing the same nodes", backend.ErrUnavailable)

// fail adds to err its class and what an operator must do.
func (d *driver) fail(err error) error {
	if errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, context.DeadlineExceeded) {
		switch why := cmp.Or(d.writer.Why(), d.reader.Why()); {
		case why == nil:
		case ensemble.Class(why) == backend.ErrDenied:
			return fmt.Errorf("%w: not connected: %w", backend.ErrDenied, why)
		default:
			return fmt.Errorf("%w: not connected: %w (%w)", backend.ErrUnavailable, err, why)
		}
	}
	return d.Fail(err, fmt.Sprintf("read, write, create and delete at %s and below (zkCli.sh: getAcl -R %s)", d.root, d.root))
}
