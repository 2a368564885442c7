package registertest_test

import (
	"testing"

	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/conformance/registertest"
)

func TestTheStoreInsideTheProcessIsARegister(t *testing.T) {
	var store *registertest.Store
	registertest.Run(t, registertest.Harness{
		MaxBytes: 1 << 20,
		NewStore: func(testing.TB) func(testing.TB) register.Register {
			store = registertest.NewStore()
			return func(testing.TB) register.Register { return store.Register() }
		},
		Set:         func(value []byte) { store.Set(value) },
		LoseAnswers: func() func() { return store.LoseAnswers() },
	})
}
