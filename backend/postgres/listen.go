package postgres

import (
	"context"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/relational"
)

// Listen implements [lease.Listener] by LISTEN, on the connection of the calls while none uses it. It only
// says that something has changed. A position is how often that was said, plus one.
func (d *driver) Listen(ctx context.Context, position uint64,
	_ []lease.Item, on func([]lease.Item, uint64) bool) error {
	select {
	case d.listening <- struct{}{}:
		defer func() { <-d.listening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.Driver.Listen(ctx, position, on, func(ctx context.Context, _ uint64) error {
		err := d.conns.Watch(ctx, d.hear)
		if err == nil {
			d.Noted()
		}
		return d.Fail(err)
	})
}

// hear waits until something may have changed, also before this connection listened. What comes during a call
// is kept by the connection. One to a pooler, which would give notifications to others, does not listen.
func (d *driver) hear(ctx context.Context, c *conn) (err error) {
	if c.hears {
		_, err = c.WaitForNotification(ctx)
	} else {
		err = d.listen(ctx, c)
	}
	if err != nil && ctx.Err() != nil && !c.IsClosed() {
		return ctx.Err() // a call needs the connection
	}
	return err
}

func (d *driver) listen(ctx context.Context, c *conn) error {
	// A call waits until its connection listens: a statement that is broken off costs the connection.
	begin, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginLimit)
	defer cancel()
	if !c.pooled {
		// The process that a pooler, such as PgBouncer, names is not the one that answers.
		who := "BEGIN; " + limitSQL + "SELECT pg_catalog.pg_backend_pid(); COMMIT"
		results, err := send(begin, c.PgConn(), who)
		if err != nil {
			return err
		}
		c.pooled = number(results[0], 0, 0) != uint64(c.PgConn().PID())
	}
	if c.pooled {
		<-ctx.Done()
		return ctx.Err()
	}
	listen := "LISTEN " + relational.Quoted(d.Table.Name(), `"`)
	_, err := send(begin, c.PgConn(), "BEGIN; "+limitSQL+listen+stayIdleSQL+"; COMMIT")
	c.hears = err == nil
	return err
}

// stayIdleSQL keeps a server from PostgreSQL 14 on from ending a connection that only listens.
const stayIdleSQL = `; SELECT pg_catalog.set_config(name, '0', false)
 FROM pg_catalog.pg_settings WHERE name = 'idle_session_timeout'`
