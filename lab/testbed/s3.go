package testbed

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The bucket that an [S3Node] has, and who may use it.
const (
	S3Bucket    = "elections"
	S3AccessKey = "testbed"
	S3SecretKey = "testbed-secret"
)

// S3Options describe a store to start.
type S3Options struct {
	// TLS makes the node speak https, with a certificate from a new authority: see [S3Node.CAFile].
	TLS bool
}

// An S3Node is a versitygw, which keeps objects in a directory.
type S3Node struct{ *Daemon }

// StartS3 starts a store for this test and stops it after the test.
func StartS3(t testing.TB, o S3Options) *S3Node {
	t.Helper()
	ownServer(t, S3, "starts its own server")
	n, err := startS3(o)
	started(t, n, err)
	endWithTest(t, n.Daemon)
	return n
}

var sharedS3 = share(func() (*S3Node, error) { return startS3(S3Options{}) })

// SharedS3 returns the store that all tests of the binary share. Tests must not inject faults into it. Each takes its own prefix.
func SharedS3(t testing.TB) *S3Node {
	t.Helper()
	return sharedS3(t)
}

func startS3(o S3Options) (*S3Node, error) {
	program, version, err := built(S3, "*", "versitygw", "internal/tools/versitygw")
	if err != nil {
		return nil, err
	}
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(filepath.Join(data, S3Bucket), 0o755); err != nil {
		return nil, err
	}
	d := daemonOptions{kind: S3, version: "versitygw " + version, dir: dir}
	var secure []string
	if o.TLS {
		if d.ca, err = newAuthority(dir); err != nil {
			return nil, err
		}
		secure = []string{"--cert", d.ca.file("server-cert.pem"), "--key", d.ca.file("server-key.pem")}
	}

	n := &S3Node{}
	n.Daemon, err = launchOnPort(func(port int) (daemonOptions, error) {
		d.addr = loopback(port)
		d.command = slices.Concat(
			[]string{program, "--access", S3AccessKey, "--secret", S3SecretKey, "--port", d.addr, "--keep-alive", "--quiet", "--health", "/health"},
			secure, []string{"posix", data})
		asked := &Daemon{options: d}
		d.ready = func(ctx context.Context) error {
			status, _, err := get(ctx, asked.URL()+"/health", asked.TLSConfig(), nil)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("it says %d", status)
			}
			return err
		}
		return d, nil
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}
