package file

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend"
)

// Name is how this backend is registered.
const Name = "file"

// Options says which directory.
type Options struct {
	// Dir is the directory of the elections, an absolute path: a relative one would be
	// another directory, with another leader, for who was started elsewhere. It is made, for
	// this user alone, if it is not there and its parent is. It must be on a local file
	// system, belong to this user and not be writable for everybody. All members must have
	// the same one and run as the same user. Required.
	Dir string

	// MaxTTL is the greatest TTL that anybody may use in this directory: the
	// longest time without a leader after somebody has deleted files of a live
	// leader. It is written down in the directory by its first member, and all
	// others must have the same. From 50 ms to 1 h. Default: 1 minute.
	MaxTTL time.Duration

	// Poll switches off Listen: followers then read at the leader's expected
	// renewals, and hear of the end of a process no sooner. Default: false.
	Poll bool
}

func init() {
	backend.Register(Name, func(ctx context.Context, decode func(any) error) (backend.Backend, error) {
		var c struct {
			Dir    string        `yaml:"dir" json:"dir"`
			MaxTTL time.Duration `yaml:"max_ttl" json:"max_ttl"`
			Poll   bool          `yaml:"poll" json:"poll"`
		}
		if err := decode(&c); err != nil {
			return nil, err
		}
		return Open(ctx, Options{Dir: c.Dir, MaxTTL: c.MaxTTL, Poll: c.Poll})
	})
}
