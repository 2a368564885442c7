//go:build linux

package chaos

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A Board is memory that a process shares with the harness. It has the belief of the
// process about each of its elections, and survives the process.
type Board struct {
	memory []byte
}

// A belief is the current leadership of a process, as sampled. A zero term means none.
type belief struct {
	term, from, to atomic.Int64
}

const mostElections = 8

// openBoard creates or opens a board.
func openBoard(name string) (*Board, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := mostElections * int(unsafe.Sizeof(belief{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return &Board{memory}, err
}

func (b *Board) belief(i int) *belief {
	return (*belief)(unsafe.Pointer(&b.memory[i*int(unsafe.Sizeof(belief{}))]))
}

// The writer calls begin, last and end. A reader between two of their stores sees an
// interval that ends before it begins, and read reports none.
func (b *belief) begin(term uint64, from time.Duration) {
	b.term.Store(0)
	b.to.Store(0)
	b.from.Store(int64(from))
	b.term.Store(int64(term))
}

func (b *belief) last(to time.Duration) { b.to.Store(int64(to)) }
func (b *belief) end()                  { b.term.Store(0) }

// read returns the believed term, and the times of the first and the last sample.
func (b *belief) read() (term uint64, from, to time.Duration, ok bool) {
	term, from, to = uint64(b.term.Load()), time.Duration(b.from.Load()), time.Duration(b.to.Load())
	return term, from, to, term > 0 && to >= from
}

// leads reports whether the process held the belief at some time after since.
func (b *belief) leads(since time.Duration) bool {
	_, _, to, ok := b.read()
	return ok && to > since
}

func (b *Board) close() { syscall.Munmap(b.memory) }
