package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// Certificates are renewed while programs run.
func TestARenewedCertificateIsUsed(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	issue := func(serial int64) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		testbed.NoError(t, err)
		of := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
		cert, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
		testbed.NoError(t, err)
		private, err := x509.MarshalPKCS8PrivateKey(key)
		testbed.NoError(t, err)
		for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
			testbed.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
		}
	}
	issue(1)
	config, err := TLS("", certFile, keyFile)
	testbed.NoError(t, err)
	for i, want := range []int64{1, 2, 2} {
		issue(int64(i + 1))
		if i == 2 { // somebody is still writing the next one
			os.WriteFile(keyFile, nil, 0o600)
		}
		pair, err := config.GetClientCertificate(nil)
		testbed.NoError(t, err)
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil || leaf.SerialNumber.Int64() != want {
			t.Errorf("certificate %d is used, want %d: %v", leaf.SerialNumber, want, err)
		}
	}
}

func TestFilesForTLSAreChecked(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.pem")
	for what, files := range map[string][3]string{
		"a certificate without its key": {"", none, ""}, "a key without its certificate": {"", "", none},
		"authorities that are missing": {none, "", ""}, "files that are missing": {"", none, none},
	} {
		if _, err := TLS(files[0], files[1], files[2]); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// A server whose certificate is not there yet is tried again. One that is not trusted, or speaks no TLS, is not, nor one that
// refuses the client after the handshake, as TLS 1.3 does, though its reset is faster than what the client writes.
func TestWhatAServerSaysWithoutItsCertificateIsNoRefusal(t *testing.T) {
	none := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none yet") }
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	for what, config := range map[string]*tls.Config{
		"not there":          {GetCertificate: none},
		"too old":            {GetCertificate: none, MaxVersion: tls.VersionTLS11},
		"wanted on our side": {Certificates: other.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert},
	} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", config)
		testbed.NoError(t, err)
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				c.(*tls.Conn).Handshake()
				c.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0)
				c.(*tls.Conn).NetConn().Close()
			}
		}()
		trusting := func() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }
		c, err := new(Dialer).DialTLS(trusting)(t.Context(), "tcp", l.Addr().String())
		for err == nil {
			_, err = c.Write([]byte("PING"))
		}
		if err == nil || RefusesTLS(err.Error()) != (what != "not there") {
			t.Errorf("a server whose certificate or protocol is %s: %v, refused %v", what, err, err != nil && RefusesTLS(err.Error()))
		}
	}
	if !RefusesTLS("tls: failed to verify certificate: x509: certificate signed by unknown authority") {
		t.Error("a server that is not trusted is tried again")
	}
}
