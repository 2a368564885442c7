package file

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// kindOf returns the kind of a file system, and whether it is known to be local.
func kindOf(st *syscall.Statfs_t) (kind string, isLocal bool) {
	for _, c := range st.Fstypename {
		if c != 0 {
			kind += string(rune(byte(c)))
		}
	}
	return kind, st.Flags&unix.MNT_LOCAL != 0 && (kind == "apfs" || kind == "hfs")
}

// identity names a file independently of its path: by device, inode, and the time at which it was made, since
// a later file may have the same inode.
func identity(fd int) (string, error) {
	var st syscall.Stat_t
	err := syscall.Fstat(fd, &st)
	born := st.Birthtimespec
	return fmt.Sprintf("%x.%x.%x.%x", uint32(st.Dev), st.Ino, born.Sec, born.Nsec), err
}
