package migration

import (
	"fmt"

	"github.com/go-election/go-election/backend"
)

// A Stage says by which stores a process leads. Deploy the stages in this order, or in
// reverse order to go back. Processes at two neighbouring stages may run side by side.
type Stage string

const (
	From Stage = "from" // leads by the old store alone
	Both Stage = "both" // leads by both stores together
	To   Stage = "to"   // leads by the new store alone, once the old one is sealed
)

// Options configure a Backend. From, To and Stage are required.
type Options struct {
	// From is the store that elections leave, To the one that they move to. The Backend owns
	// both from now on: its Close closes them. At stage From, To is not used and may be nil.
	From, To backend.Backend

	// FromName and ToName are what marks call the two stores: 1 to 40 printable ASCII
	// characters without spaces, the same for all members at every stage. They must differ.
	// Default: the kinds of the stores ([backend.Guarantees].Name), such as "mysql". Set a
	// name if the elections come from, or have ever been in, another store of the same kind: a member that
	// migrates between two other stores must not mistake this one for one of them.
	FromName, ToName string

	// Stage is the stage of this process, as long as it lives.
	Stage Stage

	// Unsealed lets a process at stage To lead although the old store may not be sealed. Set it only if no
	// process that elects by the old store, alone or together with another one, runs or will ever run again:
	// otherwise there are two leaders. It counts only for processes that have it set. It is recorded in the
	// new store, so that members can go back, and counts no more after that.
	Unsealed bool
}

// Name is how this backend is registered. Its section names two others:
//
//	backend: migration
//	migration: {from: etcd, to: mysql, stage: both}
const Name = "migration"

func init() {
	type section struct {
		From, To backend.Named // instead of those of Options
		Options
	}
	backend.Register(Name, section{}, func(c section) (*Backend, error) {
		from, to, o := c.From.Name, c.To.Name, c.Options
		if from == "" || to == "" || from == Name || to == Name || from == to {
			return nil, fmt.Errorf("migration: %w: from is %q and to is %q; they must be the names of two "+
				"stores", backend.ErrInvalid, from, to)
		}
		var err error
		if o.From, err = c.From.Open(); err == nil && c.Stage != From {
			o.To, err = c.To.Open()
		}
		if err != nil {
			return nil, err
		}
		return New(o)
	})
}
