package natskv

import (
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/go-election/go-election/lab/testbed"
)

// TestMain is also the main function of a server; see startNode.
func TestMain(m *testing.M) {
	if addr := os.Getenv("NATSKV_ADDR"); addr != "" {
		if err := serve(addr, os.Getenv("NATSKV_DIR")); err != nil {
			log.Fatal(err)
		}
		return
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // most cases of the suite wait for leases to expire
	os.Exit(m.Run())
}

// serve is a nats-server with its store in files.
func serve(addr, dir string) error {
	o := server.Options{Host: "127.0.0.1", Port: port(addr), JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true, NoLog: true}
	s, err := server.NewServer(&o)
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return nil
}

// startNode starts a server: this program as another process, so that it can be killed. It ends with the test.
func startNode(t testing.TB) *testbed.Daemon {
	t.Helper()
	return testbed.StartProgram(t, "env", "coreutils", func(env string, d *testbed.Daemon) []string {
		return []string{env, "NATSKV_ADDR=" + d.Addr(), "NATSKV_DIR=" + filepath.Join(d.Dir(), "data"), os.Args[0]}
	})
}

func port(addr string) int {
	_, text, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(text)
	return n
}
