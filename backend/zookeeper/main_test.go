package zookeeper

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// TestMain runs more tests at a time than there are processors: they wait for
// leases to run out.
func TestMain(m *testing.M) {
	memberMain()
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil {
		if n, err := strconv.Atoi(f.Value.String()); err == nil && n < 24 {
			f.Value.Set("24")
		}
	}
	os.Exit(m.Run())
}
