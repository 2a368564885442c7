package file

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// local lists the file systems that belong to one kernel (linux/magic.h). All others are refused: those of
// networks (NFS, SMB, Ceph, 9p), and all of FUSE, since the kernel does not tell what is behind it (sshfs).
var local = map[uint32]string{
	0xef53: "ext2, ext3 or ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x2fc12fc1: "zfs", 0x72b6: "jffs2",
	0xca451a4e: "bcachefs", 0x01021994: "tmpfs", 0x858458f6: "ramfs", 0x794c7630: "overlayfs",
	0x52654973: "reiserfs", 0x3434: "nilfs2", 0x24051905: "ubifs", 0x3153464a: "jfs", 0xf2f52010: "f2fs",
}

// kindOf returns the kind of a file system, and whether it is known to be local.
func kindOf(st *syscall.Statfs_t) (kind string, isLocal bool) {
	magic := uint32(st.Type)
	if kind, isLocal = local[magic]; !isLocal {
		kind = fmt.Sprintf("statfs type 0x%x", magic)
	}
	return kind, isLocal
}

// identity names a file independently of its path: by device, inode, and the time at which it was made, since
// a later file may have the same inode. Some file systems do not know that time.
func identity(fd int) (string, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	return fmt.Sprintf("%x.%x.%x.%x.%x", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec), err
}
