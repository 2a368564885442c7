//go:build linux || darwin

package file

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/go-election/go-election/backend"
)

// open opens a file of this directory to read it. A symbolic link, anything but a regular file, and a file of
// another user are errors.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // do not wait for the writer of a pipe
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", backend.ErrDenied, path)
	}
	if err == nil {
		err = checkOwner(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkOwner returns an error if another user can change what is at the path.
func checkOwner(path string, info fs.FileInfo) error {
	if uid := int(stat(info).Uid); uid != os.Geteuid() {
		return fmt.Errorf("%w: %s belongs to user %d and this process is user %d: all members must run as one user, who owns it (chown)", backend.ErrDenied, path, uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("%w: every user can write %s (chmod o-w)", backend.ErrDenied, path)
	}
	return nil
}

func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// identity names a file independently of its path. No other file gets the same identity while a process has
// the file open.
func identity(st *syscall.Stat_t) string { return fmt.Sprintf("%x-%x", uint64(st.Dev), st.Ino) }

// fileID is like identity, and differs for a later file that has the same inode.
func fileID(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	when, err := birth(f)
	return identity(stat(info)) + when, err
}

// identityOf returns the identity of what is at the path. It follows links.
func identityOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return identity(stat(info)), nil
}
