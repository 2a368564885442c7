package election

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// maxQueuedRecords is how many records may wait for a slow logger.
const maxQueuedRecords = 256

// A logQueue passes records to a handler on a goroutine of its own, which runs while records wait.
// So a logger that hangs, such as one that writes to a full pipe, does not keep the loop from
// renewing leases and ending leaderships. The handler must have its attributes already: a handler
// from WithAttrs would not be queued.
type logQueue struct {
	slog.Handler
	least slog.Level
	start func(func()) // starts a goroutine

	mu      sync.Mutex
	waiting []slog.Record
	dropped int // records, since the queue was full
	running bool
}

// Enabled implements [slog.Handler].
func (q *logQueue) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= q.least && q.Handler.Enabled(ctx, l)
}

// Handle queues a record. It drops the record if the queue is full. It does not block.
func (q *logQueue) Handle(_ context.Context, r slog.Record) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxQueuedRecords {
		q.dropped++
		return nil
	}
	q.waiting = append(q.waiting, r.Clone())
	if !q.running {
		q.running = true
		q.start(q.run)
	}
	return nil
}

func (q *logQueue) run() {
	for {
		q.mu.Lock()
		list, lost := q.waiting, q.dropped
		q.waiting, q.dropped = nil, 0
		q.running = len(list) > 0
		if !q.running {
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		if lost > 0 {
			text := fmt.Sprintf("the log is too slow: %d messages were lost", lost)
			list = append(list, slog.NewRecord(time.Now(), slog.LevelWarn, text, 0))
		}
		for _, r := range list {
			q.Handler.Handle(context.Background(), r)
		}
	}
}
