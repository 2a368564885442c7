package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// makeTemplate makes an empty data directory in one second (MariaDB) or three (MySQL). Servers get a copy.
func (p *program) makeTemplate() (data string) {
	dir := newDir()
	data, sql := filepath.Join(dir, "data"), filepath.Join(dir, "sql")
	check(os.WriteFile(sql, []byte(p.users), 0o644))
	args := slices.Concat([]string{"--no-defaults", "--datadir=" + data}, p.options(), p.empty)
	args[len(args)-1] += sql

	cmd := exec.Command(p.install[0], append(p.install[1:], args...)...)
	// MariaDB servers with one directory for temporary files remove each other's.
	cmd.Env = append(append(os.Environ(), "TMPDIR="+dir), p.env...)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "ERROR") {
		check(fmt.Errorf("make an empty %s data directory: %v:\n%s", p.kind, err, out))
	}
	os.Remove(filepath.Join(data, "auto.cnf")) // each server needs its own UUID
	return data
}

// options keep files and buffers small. With other sizes than the template's, the first start would resize
// files. Settings that affect durability keep their defaults.
func (p *program) options() []string {
	all := slices.Concat(p.base, p.sizes, []string{"--innodb-buffer-pool-size=32M"})
	if os.Getuid() == 0 {
		all = append(all, "--user=root")
	}
	return all
}
