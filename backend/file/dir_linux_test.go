package file

import (
	"syscall"
	"testing"
)

// Unknown file systems are refused, too, because they may be network file systems.
func TestNetworkFileSystemsAreRefused(t *testing.T) {
	for magic, name := range map[uint32]string{
		0x6969: "NFS", 0x517b: "SMB", 0xfe534d42: "SMB2", 0xff534d42: "CIFS", 0x65735546: "FUSE", 0x01021997: "9p", 0x00c36400: "Ceph",
		0x5346414f: "AFS", 0x6b414653: "kAFS", 0x73757245: "Coda", 0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x0bd00bd0: "Lustre",
		0x786f4256: "vboxsf", 0x47504653: "GPFS", 0x19830326: "BeeGFS", 0xdeadbeef: "unknown",
	} {
		if _, ok := kindOf(&syscall.Statfs_t{Type: int64(magic)}); ok {
			t.Errorf("expected %s (0x%x) to be refused", name, magic)
		}
	}
	if kind, ok := kindOf(&syscall.Statfs_t{Type: 0xef53}); !ok {
		t.Errorf("expected ext4 to be accepted, got %s", kind)
	}
}
