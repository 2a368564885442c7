package file

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// Name is how this backend is registered.
const Name = "file"

// Options configure a Backend.
type Options struct {
	// Dir is the directory of the elections. Required. It is an absolute path without symbolic links, on a
	// local file system. It belongs to this user, and no other can write it. Open makes it with mode 0700 if
	// it does not exist and its parent does. All members have the same Dir and run as the same user.
	Dir string `yaml:"dir" json:"dir"`

	// MaxTTL is the greatest TTL in this directory. If files of a live leader are deleted, no process leads
	// for up to MaxTTL. All members must have the same. From 50 ms to 1 h. Default: 1 minute.
	MaxTTL time.Duration `yaml:"max_ttl" json:"max_ttl"`
}

func init() { backend.Register(Name, Options{}, Open) }
