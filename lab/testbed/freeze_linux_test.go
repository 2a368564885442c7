package testbed

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestFrozenProcessesAnswerAfterTheThaw(t *testing.T) {
	if f, err := newFreezer(); err != nil {
		t.Skipf("no usable freezer of control groups: %v", err)
	} else {
		os.Remove(f.dir)
	}
	t.Parallel()
	output := make(chan string, 10)
	var pids []int
	var inputs []io.Writer
	for range 2 {
		cat := exec.Command("cat")
		in, err := cat.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cat.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cat.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			cat.Wait()
		})
		pids, inputs = append(pids, cat.Process.Pid), append(inputs, in)
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				output <- lines.Text()
			}
		}()
	}
	say := func(text string) {
		for _, input := range inputs {
			fmt.Fprintln(input, text)
		}
	}
	both := func(want string) {
		t.Helper()
		for range inputs {
			select {
			case got := <-output:
				if got != want {
					t.Fatalf("read %q, want %q", got, want)
				}
			case <-time.After(time.Minute):
				t.Fatalf("no process printed %q", want)
			}
		}
	}
	say("before")
	both("before")
	thaw := Freeze(t, pids...)
	say("frozen")
	select {
	case got := <-output:
		t.Fatalf("read %q from a frozen process", got)
	case <-time.After(300 * time.Millisecond):
	}
	thaw()
	both("frozen")
	thaw()
	say("after")
	both("after")
}
