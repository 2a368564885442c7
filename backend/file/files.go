//go:build linux || darwin

package file

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-election/go-election/backend"
)

// open opens a file of this directory. A symbolic link, anything but a regular file, and
// a file of another user are errors: whoever put it there could make us write elsewhere,
// or hold a lock that we cannot see. Children never inherit the descriptor, because Go
// opens files with O_CLOEXEC.
func open(path string, flag int) (*os.File, syscall.Stat_t, error) {
	var st syscall.Stat_t
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600) // do not wait for the writer of a named pipe
	if err != nil {
		return nil, st, err
	}
	if err := fstat(f, &st); err != nil {
		f.Close()
		return nil, st, err
	}
	switch {
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		err = fmt.Errorf("%w: %s is not a regular file", backend.ErrDenied, path)
	case int(st.Uid) != os.Geteuid():
		err = fmt.Errorf("%w: %s belongs to user %d and this process is user %d: all members must run as one user", backend.ErrDenied, path, st.Uid, os.Geteuid())
	case st.Mode&0o002 != 0:
		err = fmt.Errorf("%w: every user can write %s (chmod o-w)", backend.ErrDenied, path)
	}
	if err != nil {
		f.Close()
		return nil, st, err
	}
	return f, st, nil
}

func fstat(f *os.File, st *syscall.Stat_t) error {
	return control(f, func(fd int) error { return syscall.Fstat(fd, st) })
}

// identity names a file independently of its path: by device and inode. No other file
// gets the same identity while a process has the file open.
func identity(st *syscall.Stat_t) string { return fmt.Sprintf("%x:%x", uint64(st.Dev), st.Ino) }

// sameFile reports whether two identities are of one file of this directory. It ignores
// the device: all files here are on one, and its number may change when the machine restarts.
func sameFile(a, b string) bool {
	_, a, ok := strings.Cut(a, ":")
	_, b, _ = strings.Cut(b, ":")
	return ok && a == b
}

// identityAt returns the identity of the file at path, "" if there is none.
func identityAt(path string) (string, error) {
	var st syscall.Stat_t
	err := retryEINTR(func() error { return syscall.Lstat(path, &st) })
	switch {
	case err == syscall.ENOENT:
		return "", nil
	case err != nil:
		return "", &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return identity(&st), nil
}

// readAll reads a file of this directory. It returns nil if there is none. A text longer
// than any of ours is cut off, and will not parse.
func readAll(path string) ([]byte, error) {
	f, _, err := open(path, os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRecord))
}

// listFiles returns the names of the files of one kind, without their suffix.
func (b *Backend) listFiles(suffix string) (names []string, err error) {
	d, err := os.Open(b.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	if err == nil {
		_, err = identityAt(b.registerPath()) // a directory that may be listed and not entered has no file that can be read
	}
	for _, name := range all {
		if base, ok := strings.CutSuffix(name, suffix); ok && !strings.HasPrefix(base, tempPrefix) {
			names = append(names, base)
		}
	}
	return names, err
}

// replace puts a new file at path, in one step. If durable, the file is on the disk when
// replace returns.
func (b *Backend) replace(path string, text []byte, durable bool) error {
	temp, err := b.temp(text, durable)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	if durable {
		return b.syncDir()
	}
	return nil
}

// temp writes a new file under a random name.
func (b *Backend) temp(text []byte, durable bool) (path string, err error) {
	var random [12]byte
	rand.Read(random[:])
	path = filepath.Join(b.dir, tempPrefix+hex.EncodeToString(random[:]))
	f, _, err := open(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return "", err
	}
	if _, err = f.Write(text); err == nil && durable {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		os.Remove(path)
	}
	return path, err
}

// syncDir writes new names in the directory to the disk.
func (b *Backend) syncDir() error {
	d, err := os.Open(b.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
