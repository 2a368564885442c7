package file

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// local lists the file systems that belong to one kernel (linux/magic.h). All others are
// refused, and so is every network file system, known or not: NFS, SMB, Ceph, 9p, and all
// of FUSE, because the kernel does not tell what is behind it (sshfs, GlusterFS, virtiofs).
var local = map[uint32]string{
	0xef53: "ext2, ext3 or ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x2fc12fc1: "zfs", 0xf2f52010: "f2fs",
	0xca451a4e: "bcachefs", 0x01021994: "tmpfs", 0x858458f6: "ramfs", 0x794c7630: "overlayfs", 0x3153464a: "jfs",
	0x52654973: "reiserfs", 0x3434: "nilfs2", 0x24051905: "ubifs", 0x72b6: "jffs2",
}

// fileSystem returns the kind of a file system, and whether it is known to be local.
func fileSystem(st *syscall.Statfs_t) (kind string, isLocal bool) {
	magic := uint32(st.Type)
	if kind, isLocal = local[magic]; !isLocal {
		kind = fmt.Sprintf("statfs type 0x%x", magic)
	}
	return kind, isLocal
}

// changed returns when a file's content or attributes last changed.
func changed(st *syscall.Stat_t) syscall.Timespec { return st.Ctim }

// birth returns when a file was made: a later file may have the same inode. It is empty on a file system that does
// not know.
func birth(f *os.File) (when string, err error) {
	var st unix.Statx_t
	err = unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return "", err
	}
	return fmt.Sprintf("-%d.%09d", st.Btime.Sec, st.Btime.Nsec), nil
}
