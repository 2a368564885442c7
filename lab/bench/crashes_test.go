package bench

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// The ways in which a leader's process crashes, and the signals that make it do so.
var ways = []struct {
	name string
	sig  syscall.Signal
}{
	{"kill -9", syscall.SIGKILL},
	{"panic", syscall.SIGUSR1},
	{"out of memory", syscall.SIGUSR2},
}

// memoryLimit is what a process may have before the kernel kills it, in bytes.
const memoryLimit = 128 << 20

// TestCrashes prints how long nobody leads after the leader's process has crashed, without and with a
// guard, beside the peers. All rows of a store are measured at the same time. It asserts nothing.
func TestCrashes(t *testing.T) {
	all := measured(t)
	fmt.Println("| store | with | kill -9: median, worst | panic | out of memory |")
	fmt.Println("|---|---|---|---|---|")
	for _, s := range all {
		ours := []string{plain, guarded}
		if s.backend == "file" { // the kernel frees the lease
			ours = ours[:1]
		}
		var wg sync.WaitGroup
		rows := s.rows(ours...)
		cells := make([][3]string, len(rows))
		for i, with := range rows {
			groups, n := 3, rounds(15, 1)
			if !slices.Contains(ours, with) {
				n = rounds(5, 1)
			}
			for j, way := range ways {
				if way.sig != syscall.SIGKILL && (with == curatorLatch || with == riverElector) {
					continue // programs of their own, which do not know the signals
				}
				wg.Go(func() {
					g := crashes(t, func() role { return s.role(with, storesTTL) }, groups, n, way.sig)
					if len(g) == 0 {
						return // it has failed
					}
					cells[i][j] = fmt.Sprintf("%v, %v", round(g[len(g)/2]), round(g[len(g)-1]))
				})
			}
		}
		wg.Wait()
		for i, with := range rows {
			fmt.Printf("| %s %s | %s | %s | %s | %s |\n", s.name, s.version, with, cells[i][0], cells[i][1], cells[i][2])
		}
	}
}

// crashWhenTold makes this process crash when it gets one of the signals of ways. Where goroutines are counted
// there is none for that.
func (r role) crashWhenTold() error {
	if r.Load > 0 {
		return nil
	}
	if r.Memory != "" {
		if err := os.WriteFile(filepath.Join(r.Memory, "cgroup.procs"), []byte("0"), 0); err != nil {
			return err
		}
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		sig := <-told
		taken := make([][]byte, memoryLimit>>20)
		for n := range taken {
			r.say("ends", nil)
			if sig == syscall.SIGUSR1 {
				panic("as told")
			}
			taken[n] = make([]byte, 1<<20)
			for i := 0; i < len(taken[n]); i += os.Getpagesize() {
				taken[n][i] = 1
			}
		}
	}()
	return nil
}
