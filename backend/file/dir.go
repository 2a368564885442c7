//go:build linux || darwin

package file

import (
	"fmt"
	"os"
	"syscall"

	"github.com/go-election/go-election/backend"
)

// checkDir reports why a directory cannot be used.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir() || !ok:
		return fmt.Errorf("%w: %s is not a directory", backend.ErrDenied, dir)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: the directory %s belongs to user %d and this process is user %d: all members must run as one user, who owns it (chown)", backend.ErrDenied, dir, st.Uid, os.Geteuid())
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("%w: the directory %s is writable for everybody, who could remove a lock under its leader (chmod o-w)", backend.ErrDenied, dir)
	}
	kind, local, err := fileSystem(dir)
	switch {
	case err != nil:
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	case !local:
		return fmt.Errorf("%w: the directory %s is on a file system (%s) that is not known to be local: locks there may not be those that other machines see; use a directory on a disk of this machine", backend.ErrDenied, dir, kind)
	}
	return nil
}
