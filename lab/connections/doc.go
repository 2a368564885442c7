// Package connections tests how the backends connect: what happens when a server takes no new connections,
// when one of a name's addresses is dead, when a credential is replaced, and when a node comes back. Each
// fault is tried on every store that can have it. So is what processes of different priorities do.
package connections
