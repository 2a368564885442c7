package testbed

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// The bucket of [StartS3] and [SharedS3], and who may use it.
const (
	S3Bucket    = "elections"
	S3AccessKey = "testbed"
	S3SecretKey = "testbed-secret"
)

// StartS3 starts a store for this test: a versitygw, which keeps objects in a directory.
func StartS3(t testing.TB, o Options) *Daemon {
	t.Helper()
	if seaweed() != "" {
		t.Skip("harms a server of its own, and scripts/seaweedfs runs one for all tests")
	}
	return startOwn(t, func() *Daemon { return startS3(o) })
}

// SharedS3 returns the store of all tests of the binary, or of scripts/seaweedfs. Each takes its own prefix.
var SharedS3 = share(func() *Daemon {
	if addr := seaweed(); addr != "" {
		return &Daemon{kind: S3, version: "SeaweedFS", addr: addr}
	}
	return startS3(Options{})
})

// seaweed is the address of the store that scripts/seaweedfs runs; "" if it does not run these tests.
func seaweed() string { return os.Getenv("ELECTION_TEST_SEAWEEDFS") }

func startS3(o Options) *Daemon {
	program, version := built(S3, "*", "versitygw", "internal/tools/versitygw")
	d := newDaemon(S3, "versitygw "+version, o)
	check(os.MkdirAll(filepath.Join(d.data(), S3Bucket), 0o755))
	d.ready = func(ctx context.Context) error {
		_, err := d.ask(ctx, http.MethodGet, d.URL()+"/health", nil)
		return err
	}
	return d.onPort(func(int) []string {
		command := []string{program, "--access", S3AccessKey, "--secret", S3SecretKey, "--port", d.addr,
			"--keep-alive", "--quiet", "--health", "/health"}
		if o.TLS {
			command = append(command, "--cert", d.ca.certFile, "--key", d.ca.keyFile)
		}
		return append(command, "posix", d.data())
	})
}
