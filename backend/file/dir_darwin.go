package file

import (
	"fmt"
	"os"
	"syscall"
)

const mntLocal = 0x1000 // MNT_LOCAL

func fileSystem(dir string) (kind string, isLocal bool, err error) {
	var st syscall.Statfs_t
	if err := retryEINTR(func() error { return syscall.Statfs(dir, &st) }); err != nil {
		return "", false, err
	}
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		kind += string(rune(byte(c)))
	}
	return kind, st.Flags&mntLocal != 0 && (kind == "apfs" || kind == "hfs"), nil
}

// changed returns when a file's content or attributes last changed.
func changed(st *syscall.Stat_t) syscall.Timespec { return st.Ctimespec }

// birth returns when a file was made: a later file may have the same inode.
func birth(f *os.File) (when string, err error) {
	var st syscall.Stat_t
	err = control(f, func(fd int) error { return syscall.Fstat(fd, &st) })
	return fmt.Sprintf("-%d.%09d", st.Birthtimespec.Sec, st.Birthtimespec.Nsec), err
}
