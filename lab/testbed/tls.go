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
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes an authority and a certificate for 127.0.0.1, in dir.
func newAuthority(dir string) *authority {
	a := &authority{dir: dir, key: newKey()}
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
	writePEM(a.file("ca.pem"), "CERTIFICATE", der)
	a.issue(dir, "server", &x509.Certificate{
		Subject:     pkix.Name{CommonName: "testbed server"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // servers are each other's clients
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	return a
}

// file returns the path of one of its files: ca.pem, server-cert.pem or server-key.pem.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// client makes a certificate for a client of that name, as files in dir. It is valid until then, or as long
// as the authority. Groups are its organizations.
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
	writePEM(cert, "CERTIFICATE", must(x509.CreateCertificate(rand.Reader, template, a.cert, pair.Public(), a.key)))
	writePEM(key, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(pair)))
	return cert, key
}

func newKey() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

func writePEM(file, kind string, der []byte) {
	check(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
