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
	heard := make(chan string, 10)
	var pids []int
	var ears []io.Writer
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
		pids, ears = append(pids, cat.Process.Pid), append(ears, in)
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				heard <- lines.Text()
			}
		}()
	}
	say := func(text string) {
		for _, ear := range ears {
			fmt.Fprintln(ear, text)
		}
	}
	both := func(want string) {
		t.Helper()
		for range ears {
			select {
			case got := <-heard:
				if got != want {
					t.Fatalf("heard %q, want %q", got, want)
				}
			case <-time.After(time.Minute):
				t.Fatalf("nobody says %q", want)
			}
		}
	}
	say("before")
	both("before")
	thaw := Freeze(t, pids...)
	say("frozen")
	select {
	case got := <-heard:
		t.Fatalf("heard %q of a process that is frozen", got)
	case <-time.After(300 * time.Millisecond):
	}
	thaw()
	both("frozen")
	thaw()
	say("after")
	both("after")
}
