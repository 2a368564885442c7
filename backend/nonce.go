package backend

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// A Nonce identifies a process as the holder of leases: 32 lower-case hex digits, or "session X" for a
// program of another kind that has no nonce.
//
// Whoever knows it and can write to the store can renew or end its leases. So package fmt, loggers and JSON
// show only the first four digits. string(n) has all of them: use it only to write to a store.
type Nonce string

// NewNonce returns 128 random bits.
func NewNonce() Nonce {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return Nonce(hex.EncodeToString(b[:]))
}

// Short returns the first four digits, which tell processes apart in a log. The nonce of a program
// that has none, such as "session X", is no secret: Short returns all of it.
func (n Nonce) Short() string {
	if strings.Contains(string(n), " ") {
		return string(n)
	}
	return fmt.Sprintf("%.4s", string(n))
}

// Format implements [fmt.Formatter]: every verb prints Short.
func (n Nonce) Format(f fmt.State, verb rune) { fmt.Fprint(f, n.Short()) }

// MarshalText implements [encoding.TextMarshaler]: the text is Short.
func (n Nonce) MarshalText() ([]byte, error) { return []byte(n.Short()), nil }
