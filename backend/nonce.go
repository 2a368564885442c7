package backend

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// A Nonce identifies a process as the holder of leases: 32 lower-case hex digits. Whoever knows
// it and can write to the store can renew or end its leases. So package fmt, loggers and JSON
// show only the first four digits. string(n) has all of them: use it only to write to a store.
type Nonce string

// NewNonce returns 128 random bits.
func NewNonce() Nonce {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return Nonce(hex.EncodeToString(b[:]))
}

// Short returns the first four digits, which tell processes apart in a log.
func (n Nonce) Short() string { return fmt.Sprintf("%.4s", string(n)) }

// Format implements [fmt.Formatter]: every verb prints Short.
func (n Nonce) Format(f fmt.State, verb rune) { fmt.Fprint(f, n.Short()) }

// MarshalText implements [encoding.TextMarshaler]: the text is Short.
func (n Nonce) MarshalText() ([]byte, error) { return []byte(n.Short()), nil }
