package testbed

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// helper is an environment variable. With it, this test binary starts a server, prints
// its process and directory, and ends in the way that the variable names.
const helper = "TESTBED_TEST_ENDS_BY"

func TestServersAndDataGoWithTheTestBinary(t *testing.T) {
	if _, err := programs[MariaDB](); err != nil {
		unavailable(t, err)
	}
	for _, end := range []string{"exit", "panic", "kill"} {
		t.Run(end, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestHelperEnds$")
			cmd.Env = append(os.Environ(), helper+"="+end)
			out, err := cmd.StdoutPipe()
			NoError(t, err)
			NoError(t, cmd.Start())
			var pid int
			var dir string
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if number, rest, ok := strings.Cut(lines.Text(), " in "); ok && pid == 0 {
					pid, _ = strconv.Atoi(strings.TrimPrefix(number, "server "))
					dir = rest
				}
			}
			cmd.Wait()
			if pid == 0 {
				t.Fatal("the helper has not started a server")
			}
			Eventually(t, patience, "the server and its data are gone", func() error {
				if stopped, others := threads(pid); stopped+others > 0 {
					return fmt.Errorf("process %d still runs", pid)
				}
				if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
					return fmt.Errorf("%s still exists: %v", dir, err)
				}
				return nil
			})
		})
	}
}

// TestHelperEnds is not a test: the test above runs it in another process.
func TestHelperEnds(t *testing.T) {
	end := os.Getenv(helper)
	if end == "" {
		return
	}
	s := Start(t, MariaDB, Options{})
	s.Stop(t) // a frozen server must be killed as well
	dir, _ := scratch()
	fmt.Printf("server %d in %s\n", s.running().pid(), dir)
	switch end {
	case "exit":
		os.Exit(0)
	case "panic":
		panic("as in a test that fails badly")
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
