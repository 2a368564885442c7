package backend

import "fmt"

// An Adopter is a Backend that can act for another process, which has ended: package electionguard
// releases what a process has led the moment it is certainly dead.
type Adopter interface {
	// Adopt makes this Backend act for the process that had this nonce. held is what that process
	// may have held; Term 0 stands for a bid without an answer. Only readings may come before it,
	// and only Release and Close follow. It does not use the store. The caller is certain that the
	// process has ended; the store may still receive what the process has sent.
	Adopt(nonce Nonce, held []Held) error
}

// CanAdopt returns nil if b is an [Adopter], and otherwise an error that says so. A Backend that is made of
// others has a method CanAdopt: what they can do decides, and which of them are used.
func CanAdopt(b Backend) error {
	if made, ok := b.(interface{ CanAdopt() error }); ok {
		return made.CanAdopt()
	}
	if _, ok := b.(Adopter); !ok {
		return fmt.Errorf("backend %s cannot release for a process that has ended", b.Guarantees().Name)
	}
	return nil
}
