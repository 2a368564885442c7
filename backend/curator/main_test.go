package curator

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs more tests in parallel than there are processors: they wait for leases to expire.
func TestMain(m *testing.M) {
	memberMain()
	flag.Set("test.parallel", "16")
	os.Exit(m.Run())
}
