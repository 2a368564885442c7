package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A root is the path of all nodes: ROOT/record/NAME, ROOT/session/NONCE. The meta item is the data
// of ROOT/record, so that a reading of it also tells how many records there are.
type root string

// path returns the path of an item.
func (r root) path(k lease.Key) string {
	if k.Kind == lease.Metas {
		return r.directory(lease.Records)
	}
	return r.directory(k.Kind) + "/" + escape(k.Name)
}

// directory is the parent of all records or sessions.
func (r root) directory(kind lease.Kind) string { return string(r) + "/" + string(kind) }

// check reports a path that ZooKeeper would refuse.
func (r root) check() error {
	if err := backend.CheckText("root", string(r), backend.MaxName, false); err != nil {
		return err
	}
	parts := strings.Split(string(r), "/")
	if parts[0] != "" || len(parts) < 2 {
		return fmt.Errorf("root %q is not an absolute path", string(r))
	}
	for _, p := range parts[1:] {
		if p == "" || p == "." || p == ".." || parts[1] == "zookeeper" {
			return fmt.Errorf("root %q has a part that is empty or made of dots, or belongs to ZooKeeper itself", string(r))
		}
	}
	return nil
}

// escape makes any name one part of a path, which people can read.
func escape(name string) string {
	if name == "." || name == ".." { // ZooKeeper refuses them
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// unescape undoes escape. ok is false for what escape does not return.
func unescape(part string) (name string, ok bool) {
	name, err := url.PathUnescape(part)
	return name, err == nil && escape(name) == part
}

// makeNode makes a lasting node unless it exists, with its parents.
func (d *driver) makeNode(ctx context.Context, path string, data []byte) error {
	create := func() error {
		_, err := call(ctx, d.session, func(c *zk.Conn) (string, error) { return c.Create(path, data, zk.FlagPersistent, d.acl) })
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
