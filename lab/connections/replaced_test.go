package connections

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/go-election/go-election/backend"
	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/backend/etcd"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A rotated credential is one that somebody replaces in its file and on the server.
type rotated struct {
	section string // of the configuration, which names the file {file}
	first   string // what is in the file
	next    string
	replace func() // replaces it on the server, and ends all connections
}

var rotations = map[string]func(t *testing.T) rotated{
	"the DSN of mysql": func(t *testing.T) rotated {
		db := startMySQL(t)
		next := db.User.Clone()
		next.Passwd = "another"
		return rotated{"mysql:\n  dsn_file: {file}\n", "\n" + db.User.FormatDSN(), "\n" + next.FormatDSN(), func() {
			db.Exec(t, fmt.Sprintf("ALTER USER '%s'@'127.0.0.1' IDENTIFIED BY 'another'", db.User.User))
			db.Disconnect(t)
		}}
	},
	"the DSN of postgres": func(t *testing.T) rotated {
		server, db := startPostgres(t, testbed.Options{Access: []string{"host all all 127.0.0.1/32 scram-sha-256"}})
		return rotated{"postgres:\n  dsn_file: {file}\n", "\n" + db.DSN(""), "\n" + db.DSNOf(db.User, "another", ""), func() {
			server.Exec(t, "ALTER ROLE "+db.User+" PASSWORD 'another'")
			db.Disconnect(t)
		}}
	},
	"the file that the DSN of postgres names": func(t *testing.T) rotated {
		server, db := startPostgres(t, testbed.Options{Access: []string{"host all all 127.0.0.1/32 scram-sha-256"}})
		host, port, _ := strings.Cut(server.Addr(), ":")
		dsn := fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=disable passfile={file}", host, port, db.User, db.Name)
		return rotated{"postgres:\n  dsn: " + dsn + "\n", "*:*:*:*:" + db.Password, "*:*:*:*:another", func() {
			server.Exec(t, "ALTER ROLE "+db.User+" PASSWORD 'another'")
			db.Disconnect(t)
		}}
	},
	"the password of redis": func(t *testing.T) rotated {
		server := testbed.StartRedis(t, testbed.Options{})
		server.Do(t, "ACL", "SETUSER", "app", "on", ">first", "~*", "&*", "+@all")
		return rotated{fmt.Sprintf("redis:\n  addresses: [%q]\n  username: app\n  password_file: {file}\n", server.Addr()), "first", "another", func() {
			server.Do(t, "ACL", "SETUSER", "app", "resetpass", ">another")
			server.Do(t, "CLIENT", "KILL", "USER", "app")
		}}
	},
	"the password of etcd": func(t *testing.T) rotated {
		server := testbed.StartEtcd(t, testbed.Options{Args: []string{"--bcrypt-cost=4"}})
		root := withUser(t, server.URL(), "first")
		return rotated{fmt.Sprintf("etcd:\n  endpoints: [%q]\n  username: app\n  password_file: {file}\n", server.URL()), "first", "another", func() {
			if _, err := root.UserChangePassword(t.Context(), "app", "another"); err != nil {
				t.Fatal(err)
			}
		}}
	},
}

// What a file has is read again when the server refuses what it had before: the process goes on without a restart.
func TestWhatIsReplacedInAFileIsReadAgain(t *testing.T) {
	t.Parallel()
	for what, start := range rotations {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			file := filepath.Join(t.TempDir(), "secret")
			write(t, file, r.first+"\n")
			name, _, _ := strings.Cut(r.section, ":")
			e := join(t, "a", 6*time.Second, configured(t, name, strings.ReplaceAll(r.section, "{file}", file)), nil)
			testbed.NoError(t, e.Lead(nil))
			drivertest.Leads(t, e)
			write(t, file, r.next+"\n")
			r.replace()
			ends := time.Now().Add(20 * time.Second)
			testbed.Eventually(t, patience, "it leads with the new credential", func() error {
				if time.Now().Before(ends) || !e.Leading() {
					return fmt.Errorf("%+v", e.Current())
				}
				return nil
			})
		})
	}
}

// secured start a server with TLS, and return its section of a configuration, which names {ca}, and the file with the
// authority of its certificate.
var secured = map[string]func(t *testing.T) (section, ca string){
	"redis": func(t *testing.T) (section, ca string) {
		server := testbed.StartRedis(t, testbed.Options{TLS: true})
		return fmt.Sprintf("redis:\n  addresses: [%q]\n  ca_file: {ca}\n", server.Addr()), server.CAFile()
	},
	"etcd": func(t *testing.T) (section, ca string) {
		server := testbed.StartEtcd(t, testbed.Options{TLS: true})
		cert, key := server.ClientFiles(t, "app")
		return fmt.Sprintf("etcd:\n  endpoints: [%q]\n  ca_file: {ca}\n  cert_file: %s\n  key_file: %s\n", server.URL(), cert, key), server.CAFile()
	},
	"consul": func(t *testing.T) (section, ca string) {
		server := testbed.StartConsul(t, testbed.Options{TLS: true})
		cert, key := server.ClientFiles(t, "app")
		return fmt.Sprintf("consul:\n  address: %q\n  ca_file: {ca}\n  cert_file: %s\n  key_file: %s\n", server.URL(), cert, key), server.CAFile()
	},
	"zookeeper": func(t *testing.T) (section, ca string) {
		server := testbed.StartZooKeeper(t, testbed.Options{TLS: true})
		return fmt.Sprintf("zookeeper:\n  servers: [%q]\n  ca_file: {ca}\n", server.Addr()), server.CAFile()
	},
	"s3": func(t *testing.T) (section, ca string) {
		withS3Keys(t)
		server := testbed.StartS3(t, testbed.Options{TLS: true})
		return fmt.Sprintf("s3:\n  bucket: %s\n  region: us-east-1\n  endpoint: %q\n  path_style: true\n  ca_file: {ca}\n", testbed.S3Bucket, server.URL()), server.CAFile()
	},
	"postgres": func(t *testing.T) (section, ca string) {
		server, db := startPostgres(t, testbed.Options{TLS: true})
		at, _, _ := strings.Cut(db.DSN(""), "?")
		return fmt.Sprintf("postgres:\n  dsn: %q\n", at+"?sslmode=verify-full&sslrootcert={ca}"), server.CAFile()
	},
}

// The file with the authorities has been replaced, since the server's certificate is of another one.
func TestAuthoritiesThatAreReplacedInAFileAreReadAgain(t *testing.T) {
	t.Parallel()
	for name, start := range secured {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			section, ca := start(t)
			file := filepath.Join(t.TempDir(), "ca.pem")
			write(t, file, strange(t))
			e := join(t, "a", 6*time.Second, configured(t, name, strings.ReplaceAll(section, "{ca}", file)), nil)
			testbed.NoError(t, e.Lead(nil))
			testbed.Eventually(t, patience, "the server is not trusted", func() error {
				if text := fmt.Sprintf("%+v", e.Current()); !strings.Contains(text, "x509") {
					return errors.New(text)
				}
				return nil
			})
			right, err := os.ReadFile(ca)
			testbed.NoError(t, err)
			write(t, file, string(right))
			drivertest.Leads(t, e)
		})
	}
}

// strange returns an authority that has signed nothing.
func strange(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	testbed.NoError(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	testbed.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
}

func configured(t *testing.T, name, section string) backend.Backend {
	t.Helper()
	c, err := config.Parse("test", []byte("backend: "+name+"\nttl: 6s\n"+section), config.Options{})
	testbed.NoError(t, err)
	b, err := c.OpenBackend()
	testbed.NoError(t, err)
	return b
}

// A server ends a login after a while, and the next login does not depend on the one that has ended.
func TestALeaderOfEtcdLeadsOnWhenItsTokenHasExpired(t *testing.T) {
	t.Parallel()
	for what, oldest := range map[string]bool{"newest": false, "oldest": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			public, private := keys(t)
			server := testbed.StartEtcd(t, testbed.Options{Oldest: oldest, Args: []string{"--bcrypt-cost=4",
				"--auth-token=jwt,pub-key=" + public + ",priv-key=" + private + ",sign-method=RS256,ttl=5s"}})
			withUser(t, server.URL(), "secret")
			b, err := etcd.Open(etcd.Options{Endpoints: []string{server.URL()}, Username: "app", Password: "secret"})
			l := lead(t, join(t, "a", 6*time.Second, b, err))
			drivertest.KeepsLeading(t, l, 20*time.Second)
		})
	}
}

// keys makes files with a key for signatures.
func keys(t *testing.T) (public, private string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	testbed.NoError(t, err)
	text, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	testbed.NoError(t, err)
	dir := t.TempDir()
	public, private = filepath.Join(dir, "public.pem"), filepath.Join(dir, "private.pem")
	write(t, public, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: text})))
	write(t, private, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	return public, private
}

func write(t *testing.T, file, text string) {
	t.Helper()
	testbed.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// withUser makes the user app, who may do everything with all keys, and returns a client of root.
func withUser(t *testing.T, url, password string) *clientv3.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
	testbed.NoError(t, err)
	defer c.Close()
	must := func(_ any, err error) {
		t.Helper()
		testbed.NoError(t, err)
	}
	must(c.UserAdd(ctx, "root", "rootpass"))
	must(c.UserGrantRole(ctx, "root", "root"))
	must(c.UserAdd(ctx, "app", password))
	must(c.RoleAdd(ctx, "all"))
	must(c.RoleGrantPermission(ctx, "all", "a", "z", clientv3.PermissionType(clientv3.PermReadWrite)))
	must(c.UserGrantRole(ctx, "app", "all"))
	must(c.AuthEnable(ctx))
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop(), Username: "root", Password: "rootpass"})
	testbed.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

// demanding start a server that checks the certificates of its clients, and return its section of a configuration at an
// address, which names {cert} and {key}.
var demanding = map[string]func(t *testing.T) (server *testbed.Daemon, section func(addr string) string){
	"redis": func(t *testing.T) (*testbed.Daemon, func(addr string) string) {
		server := testbed.StartRedis(t, testbed.Options{TLS: true})
		server.Do(t, "CONFIG", "SET", "tls-auth-clients", "yes")
		return server.Daemon, func(addr string) string {
			return fmt.Sprintf("redis:\n  addresses: [%q]\n  ca_file: %s\n  cert_file: {cert}\n  key_file: {key}\n", addr, server.CAFile())
		}
	},
	"etcd": func(t *testing.T) (*testbed.Daemon, func(addr string) string) {
		server := testbed.StartEtcd(t, testbed.Options{TLS: true})
		return server, func(addr string) string {
			return fmt.Sprintf("etcd:\n  endpoints: [%q]\n  ca_file: %s\n  cert_file: {cert}\n  key_file: {key}\n", addr, server.CAFile())
		}
	},
	"consul": func(t *testing.T) (*testbed.Daemon, func(addr string) string) {
		server := testbed.StartConsul(t, testbed.Options{TLS: true, Args: []string{"-hcl=tls { https { verify_incoming = true } }"}})
		return server, func(addr string) string {
			return fmt.Sprintf("consul:\n  address: %q\n  ca_file: %s\n  cert_file: {cert}\n  key_file: {key}\n", "https://"+addr, server.CAFile())
		}
	},
	"zookeeper": func(t *testing.T) (*testbed.Daemon, func(addr string) string) {
		server := testbed.StartZooKeeper(t, testbed.Options{TLS: true, Args: []string{"ssl.clientAuth=want"}})
		return server, func(addr string) string {
			return fmt.Sprintf("zookeeper:\n  servers: [%q]\n  ca_file: %s\n  cert_file: {cert}\n  key_file: {key}\n", addr, server.CAFile())
		}
	},
	"postgres": func(t *testing.T) (*testbed.Daemon, func(addr string) string) {
		server, db := startPostgres(t, testbed.Options{TLS: true})
		server.Exec(t, "ALTER SYSTEM SET ssl_ca_file = '"+server.CAFile()+"'", "SELECT pg_reload_conf()")
		return server.Daemon, func(addr string) string {
			at, _, _ := strings.Cut(db.DSN(addr), "?")
			return fmt.Sprintf("postgres:\n  dsn: %q\n", at+"?sslmode=verify-full&sslcert={cert}&sslkey={key}&sslrootcert="+server.CAFile())
		}
	},
}

// A client certificate expires while its process leads, and its connections break. The error says which has expired; when
// its files were replaced, the process leads again.
func TestAClientCertificateThatExpiresIsNamedAndReplaced(t *testing.T) {
	t.Parallel()
	for name, start := range demanding {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, section := start(t)
			proxy := testbed.NewProxy(t, server.Addr())
			expires := time.Now().Add(15 * time.Second)
			cert, key := server.ClientFilesUntil(t, "app", expires)
			text := strings.NewReplacer("{cert}", cert, "{key}", key).Replace(section(proxy.Addr()))
			e := join(t, "a", 6*time.Second, configured(t, name, text), nil)
			testbed.NoError(t, e.Lead(nil))
			drivertest.Leads(t, e)
			<-time.After(time.Until(expires) + time.Second)
			proxy.Reset()
			testbed.Eventually(t, patience, "the error says what has expired", func() error {
				text := fmt.Sprintf("%+v", e.Current())
				if !strings.Contains(text, "the client certificate of ") || !strings.Contains(text, "has expired") {
					return errors.New(text)
				}
				return nil
			})

			for to, next := range renewed(t, server, cert, key) {
				write(t, to, next)
			}
			drivertest.Leads(t, e)
		})
	}
}

func renewed(t *testing.T, server *testbed.Daemon, cert, key string) map[string]string {
	t.Helper()
	nextCert, nextKey := server.ClientFiles(t, "app")
	files := make(map[string]string)
	for old, next := range map[string]string{cert: nextCert, key: nextKey} {
		content, err := os.ReadFile(next)
		testbed.NoError(t, err)
		files[old] = string(content)
	}
	return files
}
