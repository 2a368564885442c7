package zookeeper

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

// A root is the path of all nodes: ROOT/record/NAME, ROOT/session/NONCE. The meta item is the data
// of ROOT/record, so that a reading of it also tells how many records there are.
type root string

// path returns the path of an item.
func (r root) path(k lease.Key) string {
	if k.Kind == lease.Metas {
		return r.directory(lease.Records)
	}
	return r.directory(k.Kind) + "/" + ensemble.Escape(k.Name)
}

// directory is the parent of all records or sessions.
func (r root) directory(kind lease.Kind) string { return string(r) + "/" + string(kind) }

// makeNode makes a lasting node unless it exists, with its parents.
func (d *driver) makeNode(ctx context.Context, path string, data []byte) error {
	create := func() error {
		_, err := ensemble.Call(ctx, d.writer, func(c *zk.Conn) (string, error) { return c.Create(path, data, zk.FlagPersistent, d.ACL) })
		return err
	}
	err := create()
	if above := parent(path); errors.Is(err, zk.ErrNoNode) && above != "" {
		if err = d.makeNode(ctx, above, nil); err == nil {
			err = create()
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// makeDirectories makes the parents of records and sessions.
func (d *driver) makeDirectories(ctx context.Context) error {
	for _, kind := range []lease.Kind{lease.Records, lease.Sessions} {
		if err := d.makeNode(ctx, d.root.directory(kind), nil); err != nil {
			return err
		}
	}
	return nil
}

// A version is an item's Version: the zxid of the last write of its node, which never comes again, and
// the number that ZooKeeper compares, which begins anew when the node is made again.
type version struct {
	zxid   int64
	number int32
}

func versionOf(s *zk.Stat) version { return version{s.Mzxid, s.Version} }

func (v version) String() string {
	return strconv.FormatInt(v.zxid, 16) + "." + strconv.Itoa(int(v.number))
}

// parseVersion parses a version. That of a node that is not there is zero, as the number of a node that
// was just made.
func parseVersion(text string) (v version) {
	if text == "" {
		return v
	}
	zxid, number, _ := strings.Cut(text, ".")
	v.zxid, _ = strconv.ParseInt(zxid, 16, 64)
	n, err := strconv.ParseInt(number, 10, 32)
	if v.number = int32(n); err != nil {
		v.number = impossible
	}
	return v
}

// impossible is the version of no node. ZooKeeper takes -1 for any version.
const impossible = -2
