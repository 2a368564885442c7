package curator

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/go-election/go-election/internal/ensemble"
)

// A layout computes the paths.
type layout struct {
	kind         Layout
	base         string // of the names of queued nodes: "latch-" or "lock-"
	pathTemplate string // with {election}
	paths        map[string]string
	root         string
	namePrefix   string // of our nodes in queues
}

const placeholder = "{election}"

func newLayout(o Options) (layout, error) {
	l := layout{kind: cmp.Or(o.Layout, Latch), root: o.ZooKeeper.Root, paths: o.Paths}
	switch l.kind {
	case Latch:
		l.base = "latch-"
	case Selector:
		l.base = "lock-"
	case Node:
	default:
		return l, fmt.Errorf("layout is %.40q; it must be latch, selector or node", o.Layout)
	}

	l.pathTemplate = cmp.Or(o.Path, l.root+"/"+string(l.kind)+"/"+placeholder)
	if !strings.Contains(l.pathTemplate, placeholder) {
		return l, fmt.Errorf("path is %.80q, which is the same for all elections: it must contain %s (the path of a single election goes into paths)", o.Path, placeholder)
	}
	owner := map[string]string{l.root: "root", strings.ReplaceAll(l.pathTemplate, placeholder, "x"): "path"}
	for name, path := range o.Paths {
		if other, ok := owner[path]; ok {
			return l, fmt.Errorf("paths: %.80q and %.80q have the same path", name, other)
		}
		owner[path] = fmt.Sprintf("paths: %.80q", name)
	}
	for path, what := range owner {
		if err := ensemble.CheckPath(path); err != nil {
			return l, fmt.Errorf("%s: %w", what, err)
		}
	}

	h := fnv.New32a()
	h.Write([]byte(l.root))
	l.namePrefix = fmt.Sprintf("%s%08x-", curatorPrefix, h.Sum32())
	return l, nil
}

// lockPath returns the path of an election's lock: the parent of the queue, or the node.
func (l *layout) lockPath(election string) string {
	if path, ok := l.paths[election]; ok {
		return path
	}
	return strings.ReplaceAll(l.pathTemplate, placeholder, ensemble.Escape(election))
}

// leaseRoot is the path below which package zookeeper keeps the leases.
func (l *layout) leaseRoot() string { return l.root + "/lease" }

// heldPath is the parent of the marks that say in which terms an election's lock was taken.
func (l *layout) heldPath(election string) string {
	return l.root + "/held/" + ensemble.Escape(election)
}

// markPath is the mark of one term.
func (l *layout) markPath(election string, term uint64) string {
	return fmt.Sprintf("%s/%016x", l.heldPath(election), term)
}

// nodePath returns the path of a lock node with this name.
func (l *layout) nodePath(election, name string) string {
	if l.kind == Node {
		return l.lockPath(election)
	}
	return l.lockPath(election) + "/" + name
}

// curatorPrefix starts the names of nodes that Curator's members can find again after a
// lost answer. A UUID in canonical form follows.
const curatorPrefix = "_c_"

// nodePrefix starts the names of the nodes that a session has in queues: by it they are found again. Its UUID
// is made of eight digits for the root, the version 9, which no other program's UUID has, and the session.
func (l *layout) nodePrefix(session int64) string {
	id := uint64(session)
	return fmt.Sprintf("%s%04x-9000-8000-%012x-", l.namePrefix, id>>48, id&(1<<48-1))
}

// isOurs reports whether a queued node belongs to a member of this module with the same root, by its name. Those
// members exclude each other by their lease, so their nodes mean nothing to each other.
func (l *layout) isOurs(name string) bool {
	const version = len("_c_00000000-0000-")
	return len(name) > len("_c_00000000-0000-0000-0000-000000000000-") && strings.HasPrefix(name, l.namePrefix) && name[version] == '9'
}

// compare orders children as Curator does: by the text after the last occurrence of the base
// name; a name without it by the whole name.
func (l *layout) compare(a, b string) int {
	return cmp.Or(strings.Compare(l.orderKey(a), l.orderKey(b)), strings.Compare(a, b))
}

func (l *layout) orderKey(name string) string {
	if at := strings.LastIndex(name, l.base); at >= 0 {
		return name[at+len(l.base):]
	}
	return name
}
