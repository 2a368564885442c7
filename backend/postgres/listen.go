package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-election/go-election/backend/lease"
)

// Listen implements [lease.Listener] by LISTEN, on a connection of its own that stays open. It only
// says that something has changed. A position is how often that was said, plus one.
func (d *driver) Listen(ctx context.Context, position uint64, _ []lease.Item, on func([]lease.Item, uint64) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	select {
	case d.listening <- struct{}{}:
		defer func() { <-d.listening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.Notifications.Listen(position, on, func(uint64) error { return d.hear(ctx) })
}

// hear waits until something may have changed. That includes that it could not listen for a while.
func (d *driver) hear(ctx context.Context) (err error) {
	if d.listener != nil && !d.listener.IsClosed() {
		_, err = d.listener.WaitForNotification(ctx)
	} else {
		err = d.listen(ctx)
	}
	if err == nil {
		d.Noted()
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err() // the connection stays, and keeps what comes meanwhile
	}
	d.dropListener()
	return d.Fail(err)
}

// listen opens the connection. If it leads to a pooler, which would give the notifications to others,
// listen waits until ctx is done.
func (d *driver) listen(ctx context.Context) (err error) {
	d.dropListener()
	if gave := time.Unix(0, d.gaveWay.Load()); time.Since(gave) < listenerPause && !pause(ctx, time.Until(gave.Add(listenerPause))) {
		return ctx.Err()
	}
	var config *pgx.ConnConfig
	if err := d.withConn(ctx, func(c *pgx.Conn) error {
		config = c.Config()
		return nil
	}); err != nil {
		return err
	}
	if d.listener, err = pgx.ConnectConfig(ctx, config); err != nil {
		return err
	}
	d.hearing.Store(d.listener)
	pooled, err := behindPooler(ctx, d.listener)
	if err == nil && !pooled {
		_, err = d.listener.PgConn().Exec(ctx, "LISTEN "+quoted(channel(d.Table))+stayIdleSQL).ReadAll()
	}
	if pooled || err != nil {
		d.dropListener()
	}
	if pooled {
		<-ctx.Done()
	}
	return cmp.Or(err, ctx.Err())
}

// stayIdleSQL keeps the server from ending a connection that only listens. Servers before PostgreSQL 14 do not.
const stayIdleSQL = `; SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'idle_session_timeout'`

// behindPooler reports whether a pooler, such as PgBouncer, has made the connection: the process that
// it names is not the one that answers.
func behindPooler(ctx context.Context, c *pgx.Conn) (bool, error) {
	results, err := c.PgConn().Exec(ctx, "SELECT pg_catalog.pg_backend_pid()").ReadAll()
	return err == nil && number(results[0], 0, 0) != uint64(c.PgConn().PID()), err
}

// listenerPause is how long there is no listener after its place was needed.
const listenerPause = 10 * time.Second

// giveWay closes the listener's connection, since a call needs its place. It returns false if there is none.
func (d *driver) giveWay() bool {
	c := d.hearing.Swap(nil)
	if c == nil {
		return false
	}
	d.gaveWay.Store(time.Now().UnixNano())
	c.PgConn().Conn().Close()
	return true
}

// dropListener closes the connection. The caller holds d.listening.
func (d *driver) dropListener() {
	if d.listener != nil {
		ctx, cancel := context.WithTimeout(context.Background(), minTTL)
		defer cancel()
		d.hearing.Store(nil)
		d.listener.Close(ctx)
		d.listener = nil
	}
}
