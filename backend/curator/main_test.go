package curator

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// TestMain runs more tests in parallel than there are processors: they wait for leases to
// expire.
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
