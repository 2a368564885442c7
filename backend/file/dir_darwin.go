package file

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileSystem returns the kind of a file system, and whether it is known to be local.
func fileSystem(st *syscall.Statfs_t) (kind string, isLocal bool) {
	for _, c := range st.Fstypename {
		if c != 0 {
			kind += string(rune(byte(c)))
		}
	}
	return kind, st.Flags&unix.MNT_LOCAL != 0 && (kind == "apfs" || kind == "hfs")
}

// changed returns when a file's content or attributes last changed.
func changed(st *syscall.Stat_t) syscall.Timespec { return st.Ctimespec }

// birth returns when a file was made: a later file may have the same inode.
func birth(f *os.File) (when string, err error) {
	var st syscall.Stat_t
	err = syscall.Fstat(int(f.Fd()), &st)
	return fmt.Sprintf("-%d.%09d", st.Birthtimespec.Sec, st.Birthtimespec.Nsec), err
}
