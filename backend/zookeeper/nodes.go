package zookeeper

import (
	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

// A root is the path of all nodes: ROOT/record/NAME, ROOT/session/NONCE and ROOT/meta.
type root string

// path returns the path of an item.
func (r root) path(k lease.Key) string {
	if k.Kind == lease.Metas {
		return r.directory(lease.Metas)
	}
	return r.directory(k.Kind) + "/" + ensemble.Escape(k.Name)
}

// directory is the parent of all records or sessions, or the meta item.
func (r root) directory(kind lease.Kind) string { return string(r) + "/" + string(kind) }

// numbers returns what ZooKeeper says of a node: the zxid of its last write, which never comes again, and
// the number that it compares, which begins anew when the node is made again.
func numbers(s *zk.Stat) lease.Numbers {
	return lease.Numbers{At: s.Mzxid, Writes: int64(s.Version), Made: s.Czxid}
}
