package testbed

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
type S3Node struct {
	*Daemon
	ca *authority
}

// StartS3 starts a store for this test and stops it after the test.
func StartS3(t testing.TB, o S3Options) *S3Node {
	t.Helper()
	Full(t, "starts its own server")
	n, err := startS3(o)
	if err != nil {
		unavailable(t, err)
	}
	recordServer(t, "versitygw "+n.Version())
	endWithTest(t, n.Daemon)
	return n
}

// SharedS3 returns the store that all tests of the binary share. Tests must not inject faults into it. Each takes its own prefix.
func SharedS3(t testing.TB) *S3Node {
	t.Helper()
	contract(t)
	n, err := sharedS3()
	if err != nil {
		unavailable(t, err)
	}
	recordServer(t, "versitygw "+n.Version())
	return n
}

var sharedS3 = sync.OnceValues(func() (*S3Node, error) {
	n, err := startS3(S3Options{})
	if err == nil {
		n.shared = true
	}
	return n, err
})

func startS3(o S3Options) (*S3Node, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	found, _ := filepath.Glob(filepath.Join(cache, "versitygw-v*", "versitygw"))
	if len(found) == 0 {
		return nil, &missing{S3, "versitygw", "built from internal/tools/versitygw"}
	}
	program := found[len(found)-1]
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	n := &S3Node{}
	args := []string{program, "--access", S3AccessKey, "--secret", S3SecretKey, "--port", loopback(port), "--keep-alive", "--quiet", "--health", "/health"}
	if o.TLS {
		if n.ca, err = newAuthority(dir); err != nil {
			return nil, err
		}
		args = append(args, "--cert", filepath.Join(dir, "server-cert.pem"), "--key", filepath.Join(dir, "server-key.pem"))
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(filepath.Join(data, S3Bucket), 0o755); err != nil {
		return nil, err
	}
	n.Daemon, err = launch(daemonOptions{
		kind: S3, version: strings.TrimPrefix(filepath.Base(filepath.Dir(program)), "versitygw-v"), addr: loopback(port), dir: dir,
		command: append(args, "posix", data), ready: n.ready,
	})
	if err != nil {
		return nil, err
	}
	if err := n.await(); err != nil {
		n.remove()
		return nil, err
	}
	return n, nil
}

// ready returns nil once the store answers.
func (n *S3Node) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/health", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	if n.ca != nil {
		transport.TLSClientConfig = n.ca.clientConfig()
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it says %s", answer.Status)
	}
	return nil
}

// URL is where clients reach the store.
func (n *S3Node) URL() string {
	if n.ca != nil {
		return "https://" + n.Addr()
	}
	return "http://" + n.Addr()
}

// CAFile is the file with the authority of the store's certificate; "" without TLS.
func (n *S3Node) CAFile() string {
	if n.ca == nil {
		return ""
	}
	return filepath.Join(n.ca.dir, "ca.pem")
}
