package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
)

// Certificates are renewed while programs run.
func TestARenewedCertificateIsUsed(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	issue := func(serial int64) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		of := &x509.Certificate{SerialNumber: big.NewInt(serial)}
		cert, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
			if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	issue(1)
	config, err := TLS("", certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for serial := int64(1); serial <= 2; serial++ {
		issue(serial)
		pair, err := config.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil || leaf.SerialNumber.Int64() != serial {
			t.Errorf("certificate %d is used after it was renewed as %d: %v", leaf.SerialNumber, serial, err)
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
