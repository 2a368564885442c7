package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// A process is a started server. It may have ended.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed after Wait has returned
}

// spawn starts a server and appends its output to the file named log.
func spawn(attr syscall.SysProcAttr, command, env []string, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	attr.Pdeathsig = syscall.SIGKILL
	attr.Setpgid = true // an interrupt from the terminal reaches only the tests
	cmd.SysProcAttr = &attr
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills a child with Pdeathsig when the thread that started it ends, not when the process
		// ends. Go may end any thread except a locked one, so this one waits for the child.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill kills the process and its children, and waits until they have ended.
func (p *process) kill() {
	var children []int
	if Pause(p.cmd.Process, true) == nil { // it makes no further one
		children = Children(p.pid(), "")
	}
	p.cmd.Process.Kill()
	for _, pid := range children {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	<-p.done
	poll(endLimit, func() error {
		for _, pid := range children {
			if stopped, others := threads(pid); stopped+others > 0 {
				return fmt.Errorf("process %d is there", pid)
			}
		}
		return nil
	})
}

// pause stops or resumes the process and its children. PostgreSQL's are not in its process group.
func (p *process) pause(on bool) error {
	if err := Pause(p.cmd.Process, on); err != nil {
		return err
	}
	for _, pid := range Children(p.pid(), "") {
		if child, err := os.FindProcess(pid); err == nil {
			Pause(child, on) // it may have ended
		}
	}
	return nil
}

// Pause stops or resumes all threads of a process, and waits until they have stopped or resumed: the signal
// may still be pending when kill(2) returns.
func Pause(p *os.Process, on bool) error {
	signal := syscall.SIGCONT
	if on {
		signal = syscall.SIGSTOP
	}
	if err := p.Signal(signal); err != nil {
		return err
	}
	return poll(endLimit, func() error {
		stopped, others := threads(p.Pid)
		if on && others > 0 || !on && stopped > 0 {
			return fmt.Errorf("process %d has %d stopped threads and %d others", p.Pid, stopped, others)
		}
		return nil
	})
}

// threads returns how many threads of a process are stopped by a signal, and how many are not. One that has
// ended, and for which its parent has not waited, has none.
func threads(pid int) (stopped, others int) {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, dir := range all {
		f := stat(dir)
		switch {
		case len(f) == 0 || f[0] == "Z" || f[0] == "X":
		case f[0] == "T":
			stopped++
		default:
			others++
		}
	}
	return stopped, others
}

// scratch is the directory for everything that this test binary writes.
//
// A shell, the janitor, removes it. The shell reads from a pipe whose other end is
// closed when this process ends, also by SIGKILL, which no handler could cover.
var scratch = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(scratchRoot(), "election-test-")
	if err != nil {
		return "", err
	}
	// The writing end is a plain descriptor: the garbage collector would close an os.File.
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return "", err
	}
	wait := os.NewFile(uintptr(ends[0]), "pipe")
	defer wait.Close()
	// A server that is being killed may still create a file: retry for a minute.
	janitor := exec.Command("sh", "-c",
		`cat >/dev/null; for i in $(seq 300); do rm -rf -- "$1" && exit; sleep 0.2; done`, "sh", dir)
	janitor.Dir = "/"
	janitor.Stdin = wait
	janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return dir, janitor.Start()
})

// scratchRoot is where servers keep their data: in memory if there is enough of it and TMPDIR
// is not set. A disk that is busy for seconds makes every lease expire. Set TMPDIR to measure a disk.
func scratchRoot() string {
	const memory, enough = "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	err := syscall.Statfs(memory, &fs)
	if err != nil || fs.Bavail*uint64(fs.Bsize) < enough || os.Getenv("TMPDIR") != "" {
		return os.TempDir()
	}
	return memory
}

// TempDir makes a directory for one test where servers keep their data: in memory if
// there is enough. The directory may be mounted noexec. It is removed after the test.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := attempt(newDir)
	NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
