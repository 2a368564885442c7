package mysql

import (
	"context"
	"time"
)

// openForCall opens a connection for calls. If the server has no place, the connection that waits for notifications gives
// up its own.
func (d *driver) openForCall(ctx context.Context) (conn, error) {
	c, err := d.open(ctx, false)
	for gave := false; is(err, full...) && (gave || d.notifier.giveWay()); gave = true {
		select {
		case <-time.After(openPause): // the server takes a moment to see that a connection has ended
			c, err = d.open(ctx, false)
		case <-ctx.Done():
			return c, err
		}
	}
	return c, err
}

// full are the errors of a server, or of an account, that has no place for another connection.
var full = []uint16{1040, 1203, 1226}

// openPause is between two attempts to open a connection when another one has given up its place.
const openPause = 200 * time.Millisecond
