//go:build !linux

package testbed

import "testing"

// Networks exist on Linux only.

type (
	Network struct{ number int }
	Host    struct{ network *Network }
)

func NewNetwork(t testing.TB, n int) *Network {
	t.Helper()
	t.Skip(errNotHere)
	return nil
}

func (n *Network) Host(i int) *Host               { return nil }
func (h *Host) IP() string                        { return "" }
func (h *Host) PeerIP() string                    { return "" }
func (h *Host) Cut(t testing.TB, on bool)         {}
func (h *Host) command(command []string) []string { return command }
