package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// An authority is a certificate authority with one server.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	file              string // with its own certificate
	certFile, keyFile string // of the server
}

// newAuthority makes an authority and a certificate for 127.0.0.1, in dir.
func newAuthority(dir string) *authority {
	a := &authority{key: newKey(), file: filepath.Join(dir, "ca.pem")}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "testbed authority"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key))
	a.cert = must(x509.ParseCertificate(der))
	writePEM(a.file, "CERTIFICATE", der)
	a.certFile, a.keyFile = a.issue(dir, "server", &x509.Certificate{
		Subject: pkix.Name{CommonName: "testbed server"},
		// Servers are each other's clients.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	return a
}

// client makes a certificate for a client of that name, as files in dir. It is valid until then; zero: for as
// long as the authority. Groups are its organizations.
func (a *authority) client(dir, name string, until time.Time, groups ...string) (cert, key string) {
	return a.issue(dir, "client", &x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		NotAfter:    until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue signs a certificate for a new key, and writes both into files.
func (a *authority) issue(dir, name string, template *x509.Certificate) (cert, key string) {
	pair := newKey()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = a.cert.NotBefore
	if template.NotAfter.IsZero() {
		template.NotAfter = a.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	cert, key = filepath.Join(dir, name+"-cert.pem"), filepath.Join(dir, name+"-key.pem")
	der := must(x509.CreateCertificate(rand.Reader, template, a.cert, pair.Public(), a.key))
	writePEM(cert, "CERTIFICATE", der)
	writePEM(key, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(pair)))
	return cert, key
}

func newKey() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

func writePEM(file, kind string, der []byte) {
	check(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
