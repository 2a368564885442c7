package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // templateSQL needs a time zone even where none is installed
)

// makeTemplate makes an empty data directory, which takes one second (MariaDB) or three (MySQL). Servers get a copy.
func (p *program) makeTemplate() (data string) {
	dir := newDir()
	data, sql := filepath.Join(dir, "data"), filepath.Join(dir, "sql")
	check(os.WriteFile(sql, []byte(p.templateSQL()), 0o644))
	args := slices.Concat([]string{"--no-defaults", "--datadir=" + data}, p.options(), p.empty)
	args[len(args)-1] += sql

	cmd := exec.Command(p.install[0], append(p.install[1:], args...)...)
	// MariaDB servers with the same directory for temporary files remove each other's: one may start meanwhile.
	cmd.Env = append(append(os.Environ(), "TMPDIR="+dir), p.env...)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "ERROR") {
		check(fmt.Errorf("make an empty %s data directory: %v:\n%s", p.kind, err, out))
	}
	os.Remove(filepath.Join(data, "auto.cnf")) // each server needs its own UUID
	return data
}

// options keep files and buffers small. Template and servers must use the same sizes;
// otherwise the first start resizes files. Settings that affect durability keep
// their defaults.
func (p *program) options() []string {
	all := slices.Concat(p.base, p.sizes, []string{"--innodb-buffer-pool-size=32M"})
	if os.Getuid() == 0 {
		all = append(all, "--user=root")
	}
	return all
}

// templateSQL creates what every server starts with: an administrator over TCP
// without a password, and one time zone with summer time.
func (p *program) templateSQL() string {
	var b strings.Builder
	fmt.Fprint(&b, p.users,
		"INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (1, 'N');\n",
		"INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('Europe/Berlin', 1);\n",
		"INSERT INTO mysql.time_zone_transition_type VALUES (1, 0, 3600, 0, 'CET'), (1, 1, 7200, 1, 'CEST');\n")
	zone := must(time.LoadLocation("Europe/Berlin"))
	for at := time.Date(1980, 1, 1, 0, 0, 0, 0, zone); at.Year() < 2038; _, at = at.ZoneBounds() {
		summer := 0
		if at.IsDST() {
			summer = 1
		}
		fmt.Fprintf(&b, "INSERT INTO mysql.time_zone_transition VALUES (1, %d, %d);\n", at.Unix(), summer)
	}
	return b.String()
}
