package testbed

import (
	"io"
	"testing"
)

// What starts a server is a script that ends at its first error, by the panic of check and must. So it need
// not be in a test: all tests of a binary share some servers. [attempt] turns the panic into an error again.

type failure struct{ error }

// check ends the script if there is an error.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns v, unless there is an error, which ends the script.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// attempt runs a script.
func attempt[T any](script func() T) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = f.error
		}
	}()
	return script(), nil
}

// Open opens a backend, and closes it after the test.
func Open[O any, B io.Closer](t testing.TB, open func(O) (B, error), o O) B {
	t.Helper()
	b, err := open(o)
	NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// NoError ends the test if there is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
