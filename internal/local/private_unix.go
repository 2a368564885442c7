//go:build !windows

package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// checkPrivate returns an error if other users can enter a directory.
func checkPrivate(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !st.IsDir() || st.Mode().Perm()&0o077 != 0 || !ok || int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%s must be a directory that only user %d can enter (mode 0700); it has mode %v", dir, os.Geteuid(), st.Mode())
	}
	return nil
}

// listenPrivate listens on a unix socket that only this user can open. It creates the
// socket's directory if needed, for this user only. It creates the socket under another
// name in a private directory, so that no other user can connect before its mode is set.
func listenPrivate(path string) (net.Listener, error) {
	if st, err := os.Lstat(path); err == nil {
		if st.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%s exists and is not a socket", path)
		}
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			return nil, fmt.Errorf("%s is the socket of another process", path)
		}
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	hidden, err := os.MkdirTemp(filepath.Dir(path), ".elect-") // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(hidden)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(hidden, "s"), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(filepath.Join(hidden, "s"), 0o600); err == nil {
		err = os.Rename(filepath.Join(hidden, "s"), path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
