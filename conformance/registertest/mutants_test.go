package registertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/internal/testrules"
)

// A mutant is a register that breaks a promise. Each function that is nil keeps it.
type mutant struct {
	client
	get  func(m *mutant, ctx context.Context) ([]byte, string, error)
	swap func(m *mutant, ctx context.Context, version string, value []byte) (string, error)
	wait func(ctx context.Context, version string) error

	mu  sync.Mutex
	was []byte // the value before the last swap of this client
}

func (m *mutant) Get(ctx context.Context) ([]byte, string, error) {
	if m.get != nil {
		return m.get(m, ctx)
	}
	return m.client.Get(ctx)
}

func (m *mutant) Swap(ctx context.Context, version string, value []byte) (string, error) {
	if m.swap != nil {
		return m.swap(m, ctx, version, value)
	}
	return m.client.Swap(ctx, version, value)
}

func (m *mutant) Wait(ctx context.Context, version string) error {
	if m.wait != nil {
		return m.wait(ctx, version)
	}
	return m.client.Wait(ctx, version)
}

// versioned returns mutants with versions of another kind, each of which is made of the value and its number.
func versioned(of func(value []byte, swaps int) string) mutant {
	present := func(m *mutant) string { // the caller holds the store's lock
		if m.s.value == nil {
			return ""
		}
		return of(m.s.value, m.s.swaps)
	}
	return mutant{
		get: func(m *mutant, ctx context.Context) ([]byte, string, error) {
			m.s.mu.Lock()
			defer m.s.mu.Unlock()
			return bytes.Clone(m.s.value), present(m), ctx.Err()
		},
		swap: func(m *mutant, ctx context.Context, version string, value []byte) (string, error) {
			m.s.mu.Lock()
			defer m.s.mu.Unlock()
			if ctx.Err() != nil || present(m) != version {
				return "", errors.Join(ctx.Err(), register.ErrChanged)
			}
			m.s.set(value)
			return present(m), nil
		},
	}
}

func unconditional(m *mutant, value []byte) string {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.s.set(value)
	return m.s.version
}

// changed returns mutants that keep something else than the value.
func changed(to func([]byte) []byte) mutant {
	return mutant{swap: func(m *mutant, ctx context.Context, version string, value []byte) (string, error) {
		return m.client.Swap(ctx, version, to(value))
	}}
}

const contest = "of many writers over one version one wins, and all read its value with its version"

var mutants = []struct {
	name  string
	of    func() mutant
	rules []string
}{
	{"reads the value before its last swap once more", func() mutant {
		return mutant{
			swap: func(m *mutant, ctx context.Context, version string, value []byte) (string, error) {
				was, _, _ := m.client.Get(ctx)
				now, err := m.client.Swap(ctx, version, value)
				m.mu.Lock()
				defer m.mu.Unlock()
				if err == nil {
					m.was = was
				}
				return now, err
			},
			get: func(m *mutant, ctx context.Context) ([]byte, string, error) {
				value, version, err := m.client.Get(ctx)
				m.mu.Lock()
				defer m.mu.Unlock()
				if m.was != nil {
					value, m.was = m.was, nil
				}
				return value, version, err
			},
		}
	}, []string{"what was swapped is read by all from then on", contest}},
	{"takes the time in coarse steps for a version", func() mutant {
		return versioned(func(_ []byte, swaps int) string { return fmt.Sprint(swaps / 3) })
	}, []string{"a swap needs the present version, which never comes twice"}},
	{"takes the size for a version", func() mutant {
		return versioned(func(value []byte, _ int) string { return fmt.Sprint(len(value)) })
	}, []string{"a swap needs the present version, which never comes twice", "a store that went back refuses the versions that it lost"}},
	{"counts versions in a circle", func() mutant {
		return versioned(func(_ []byte, swaps int) string { return fmt.Sprint(swaps % 16) })
	}, []string{"a swap needs the present version, which never comes twice"}},
	{"swaps unconditionally", func() mutant {
		return mutant{swap: func(m *mutant, _ context.Context, _ string, value []byte) (string, error) {
			return unconditional(m, value), nil
		}}
	}, []string{"a swap needs the present version, which never comes twice", contest, "a store that went back refuses the versions that it lost"}},
	{"makes a value though there is one", func() mutant {
		return mutant{swap: func(m *mutant, ctx context.Context, version string, value []byte) (string, error) {
			if version == "" {
				return unconditional(m, value), nil
			}
			return m.client.Swap(ctx, version, value)
		}}
	}, []string{"a swap needs the present version, which never comes twice"}},
	{"makes a value that was deleted", func() mutant {
		return mutant{swap: func(m *mutant, ctx context.Context, version string, value []byte) (string, error) {
			if _, present, _ := m.client.Get(ctx); present == "" {
				version = ""
			}
			return m.client.Swap(ctx, version, value)
		}}
	}, []string{"at first there is no value", "a swap needs the present version, which never comes twice"}},
	{"compares and swaps in two steps", func() mutant {
		return mutant{swap: func(m *mutant, ctx context.Context, version string, value []byte) (string, error) {
			if _, present, _ := m.client.Get(ctx); present != version {
				return "", register.ErrChanged
			}
			testrules.Meet()
			return unconditional(m, value), nil
		}}
	}, []string{contest}},
	{"takes a refusal for a success", func() mutant {
		return mutant{swap: func(m *mutant, ctx context.Context, version string, value []byte) (string, error) {
			now, err := m.client.Swap(ctx, version, value)
			if errors.Is(err, register.ErrChanged) {
				return "1", nil
			}
			return now, err
		}}
	}, []string{"a swap needs the present version, which never comes twice", contest}},
	{"believes an answer that was lost", func() mutant {
		return mutant{swap: func(m *mutant, ctx context.Context, version string, value []byte) (string, error) {
			now, err := m.client.Swap(ctx, version, value)
			if errors.Is(err, context.DeadlineExceeded) {
				return "1", nil
			}
			return now, err
		}}
	}, []string{"a swap whose answer is lost is no success and no refusal"}},
	{"takes a lost answer for a refusal", func() mutant {
		return mutant{swap: func(m *mutant, ctx context.Context, version string, value []byte) (string, error) {
			now, err := m.client.Swap(ctx, version, value)
			if errors.Is(err, context.DeadlineExceeded) {
				err = register.ErrChanged
			}
			return now, err
		}}
	}, []string{"a swap whose answer is lost is no success and no refusal"}},
	{"sends again what had no answer, without its condition", func() mutant {
		return mutant{swap: func(m *mutant, ctx context.Context, version string, value []byte) (string, error) {
			now, err := m.client.Swap(ctx, version, value)
			if errors.Is(err, register.ErrChanged) {
				return unconditional(m, value), nil
			}
			return now, err
		}}
	}, []string{contest}},
	{"keeps text only", func() mutant {
		return changed(func(b []byte) []byte { return []byte(strings.ToValidUTF8(string(b), "?")) })
	}, []string{"bytes are kept as they are"}},
	{"trims lines", func() mutant { return changed(bytes.TrimSpace) }, []string{"bytes are kept as they are"}},
	{"cuts what is large", func() mutant {
		return changed(func(b []byte) []byte { return b[:min(len(b), 1<<19)] })
	}, []string{"the largest value fits"}},
	{"takes an absent value for an empty one", func() mutant {
		return mutant{get: func(m *mutant, ctx context.Context) ([]byte, string, error) {
			value, version, err := m.client.Get(ctx)
			if version == "" {
				version = "0"
			}
			return value, version, err
		}}
	}, []string{"at first there is no value"}},
	{"waits on though its context has ended", func() mutant {
		return mutant{
			get: func(m *mutant, ctx context.Context) ([]byte, string, error) {
				return m.client.Get(context.WithoutCancel(ctx))
			},
			wait: func(context.Context, string) error { return nil },
		}
	}, []string{"a call ends with its context"}},
}

// Each broken register is found by the rules named for it.
func TestEachBrokenRegisterIsFound(t *testing.T) {
	for _, m := range mutants {
		for _, name := range m.rules {
			t.Run(m.name+"/"+name, func(t *testing.T) {
				var store *Store
				h := Harness{
					MaxBytes: 1 << 20,
					NewStore: func(testing.TB) func(testing.TB) register.Register {
						store = NewStore()
						return func(testing.TB) register.Register {
							broken := m.of()
							broken.client = client{store}
							return &broken
						}
					},
					Set:         func(value []byte) { store.Set(value) },
					LoseAnswers: func() func() { return store.LoseAnswers() },
				}
				testrules.Find(t, all, name, h.lab)
			})
		}
	}
}
