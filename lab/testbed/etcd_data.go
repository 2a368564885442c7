package testbed

import (
	"os"
	"path/filepath"
	"testing"
)

func (n *EtcdNode) data() string { return filepath.Join(n.Dir(), "data") }

// SaveData copies the data of a node that is not running, for ReplaceData. The copy is
// removed with the test.
func (n *EtcdNode) SaveData(t testing.TB) (saved string) {
	t.Helper()
	n.requireEnded(t, "SaveData")
	saved = filepath.Join(TempDir(t), "data")
	if err := os.CopyFS(saved, os.DirFS(n.data())); err != nil {
		t.Fatalf("testbed: save the data of etcd: %v", err)
	}
	return saved
}

// ReplaceData replaces the data of a node that is not running by an earlier copy, or with
// "" by none.
func (n *EtcdNode) ReplaceData(t testing.TB, saved string) {
	t.Helper()
	n.requireEnded(t, "ReplaceData")
	err := os.RemoveAll(n.data())
	if err == nil && saved != "" {
		err = os.CopyFS(n.data(), os.DirFS(saved))
	}
	if err != nil {
		t.Fatalf("testbed: replace the data of etcd: %v", err)
	}
}

func (n *EtcdNode) requireEnded(t testing.TB, what string) {
	t.Helper()
	if n.shared || n.Running() {
		t.Fatalf("testbed: %s: etcd %s must belong to the test and must not run", what, n.Addr())
	}
}
