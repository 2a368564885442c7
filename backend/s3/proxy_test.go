package s3

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A proxy that the environment names refuses in words of its own, so an error names it, and not credentials and bucket. A
// process reads these variables once.
func TestAnErrorNamesTheProxyOfTheEnvironment(t *testing.T) {
	const child = "GO_ELECTION_TEST_PROXY"
	if os.Getenv(child) == "" {
		for _, body := range []string{"", "<html><h1>Denied</h1></html>", "<html><meta charset=utf-8>Denied<br></html>"} {
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status := http.StatusOK
				fmt.Sscanf(strings.TrimPrefix(r.Host, "status-"), "%d", &status)
				w.Header().Set("Location", "http://elsewhere.invalid/")
				w.WriteHeader(status)
				io.WriteString(w, body)
			}))
			defer proxy.Close()
			named := strings.Replace(proxy.URL, "http://", "http://app:canary7f3a@", 1)
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
			c.Env = append(os.Environ(), child+"="+strings.TrimPrefix(proxy.URL, "http://"), "HTTPS_PROXY="+named, "HTTP_PROXY="+named, "NO_PROXY=near.invalid")
			if out, err := c.CombinedOutput(); err != nil || strings.Contains(string(out), "SDK ") {
				t.Errorf("answers of the proxy have %q: %v:\n%s", body, err, out)
			}
		}
		return
	}
	for status, class := range map[int]error{
		302: backend.ErrDenied, 307: backend.ErrDenied, 403: backend.ErrDenied, 404: backend.ErrDenied, 407: backend.ErrDenied,
		429: backend.ErrUnavailable, 502: backend.ErrUnavailable, 503: backend.ErrUnavailable, 504: backend.ErrUnavailable,
	} {
		for _, scheme := range []string{"http", "https"} {
			if scheme == "https" { // the request to connect is refused, as for a port that is closed
				class = backend.ErrUnavailable
			}
			host := fmt.Sprintf("status-%d.invalid", status)
			_, err := open(t, Options{Bucket: "b", Endpoint: scheme + "://" + host, PathStyle: true}).Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
			proxy := "connections to " + host + " lead through the proxy " + os.Getenv(child) + " (" + strings.ToUpper(scheme) + "_PROXY"
			if !errors.Is(err, class) || !strings.Contains(err.Error(), proxy) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "credentials") {
				t.Errorf("%s: %v; want %v with the proxy, and nothing about credentials", host, err, class)
			}
		}
	}
	_, err := open(t, Options{Bucket: "b", Endpoint: "https://near.invalid", PathStyle: true}).Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
	if !errors.Is(err, backend.ErrUnavailable) || strings.Contains(err.Error(), "the proxy") {
		t.Errorf("without a proxy: %v", err)
	}
}

// A store that does not write can be read. A full disk is what MinIO says; the statuses of the others say that the request is wrong.
func TestARefusedWriteIsClassedByItsCode(t *testing.T) {
	for _, c := range []struct {
		status     int
		code, says string
		class      error
	}{
		{http.StatusInsufficientStorage, "XMinioStorageFull", "XMinioStorageFull: No.", backend.ErrDenied},
		{http.StatusBadRequest, "XMinioAdminBucketQuotaExceeded", "QuotaExceeded: No.", backend.ErrDenied},
		{http.StatusForbidden, "QuotaExceeded", "QuotaExceeded: No.", backend.ErrDenied}, // of Ceph
		{http.StatusForbidden, "RequestTimeTooSkewed", "RequestTimeTooSkewed", backend.ErrDenied},
		{http.StatusBadRequest, "RequestTimeout", "RequestTimeout", backend.ErrUnavailable},
		{http.StatusBadRequest, "ThrottlingException", "ThrottlingException", backend.ErrUnavailable}, // of KMS
		{http.StatusConflict, "OperationAborted", "OperationAborted", backend.ErrUnavailable},
		{http.StatusMovedPermanently, "PermanentRedirect", "PermanentRedirect: No.; the bucket is in region eu-west-1", backend.ErrDenied},
		{http.StatusServiceUnavailable, "SlowDown", "SlowDown", backend.ErrUnavailable},
		{http.StatusOK, "<html>Log in</html>", "is this the address of the store?", backend.ErrDenied}, // two leaders, if it were believed
		{http.StatusOK, `{"status":"ok"}`, "is this the address of the store?", backend.ErrDenied},
	} {
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.WriteHeader(http.StatusNotFound)
				io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
				return
			}
			w.Header().Set("ETag", `"1"`)
			if c.status == http.StatusMovedPermanently {
				w.Header().Set("X-Amz-Bucket-Region", "eu-west-1")
			}
			w.WriteHeader(c.status)
			if c.status == http.StatusOK { // of a gateway
				io.WriteString(w, c.code)
				return
			}
			io.WriteString(w, "<Error><Code>"+c.code+"</Code><Message>No.</Message></Error>")
		}))
		defer store.Close()
		b := open(t, Options{Bucket: "b", Endpoint: store.URL, PathStyle: true})
		_, err := b.Acquire(t.Context(), []backend.Bid{{Election: "jobs", Candidate: backend.Candidate{ID: "a", Nonce: backend.NewNonce()}, TTL: 2 * time.Second, Renew: 500 * time.Millisecond, Expected: backend.Lease{Election: "jobs"}}})
		if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v with %q", c.code, err, c.class, c.says)
		}
	}
}

// Somebody replaces the key in the file of the SDK. The refusal of the old one reads it again.
func TestARefusalReadsTheCredentialsAgain(t *testing.T) {
	var valid atomic.Value
	var status atomic.Int32 // of a refusal, which differs between stores
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential="+valid.Load().(string)+"/") {
			w.WriteHeader(int(status.Load()))
			io.WriteString(w, "<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>")
			return
		}
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	}))
	defer store.Close()
	file := filepath.Join(t.TempDir(), "credentials")
	replace := func(key string) {
		testbed.NoError(t, os.WriteFile(file, []byte("[default]\naws_access_key_id = "+key+"\naws_secret_access_key = of"+key+"\n"), 0o600))
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	replace("first")
	valid.Store("first")
	o := open(t, Options{Bucket: "b", Endpoint: store.URL, PathStyle: true}).leases
	read := func() error {
		_, _, err := o.Get(t.Context())
		return err
	}
	testbed.NoError(t, read())
	for _, of := range []int32{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden} {
		status.Store(of)
		next := fmt.Sprint("key", of)
		valid.Store(next)
		if err := read(); !errors.Is(err, backend.ErrDenied) {
			t.Errorf("with a key that was replaced: %v; want ErrDenied", err)
		}
		replace(next)
		read() // is refused
		if err := read(); err != nil {
			t.Errorf("the file has the new key after status %d: %v", of, err)
		}
	}
}

// Who gives out credentials hangs: those that it gave out serve until the store refuses them.
func TestALeaderLeadsOnWhileItsCredentialsAreNotRenewed(t *testing.T) {
	var asked atomic.Int32
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			<-r.Context().Done()
		}
		fmt.Fprintf(w, `{"AccessKeyId":"a","SecretAccessKey":"b","Expiration":%q}`, time.Now().Add(6*time.Minute+3*time.Second).UTC().Format(time.RFC3339))
	}))
	defer source.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", source.URL)
	store := httptest.NewServer(newMemory())
	defer store.Close()
	l, err := drivertest.Join(t, "a", 10*time.Second, open(t, Options{Bucket: "b", Endpoint: store.URL, PathStyle: true})).Campaign(t.Context())
	testbed.NoError(t, err)
	drivertest.KeepsLeading(t, l, 17*time.Second)
	if asked.Load() < 2 {
		t.Error("nobody has asked for new credentials")
	}
}

// role is a profile with the credentials of a role, which STS gives out.
const role = "role_arn = arn:aws:iam::123456789012:role/x\nsource_profile = base\n[profile base]\naws_access_key_id = a\naws_secret_access_key = b\n"

// Who gives out credentials may refuse, too. That is no refusal of the store, and what a program prints may be the secret.
func TestCredentialsThatAreRefusedAreNoDenialOfTheStore(t *testing.T) {
	for _, c := range []struct {
		status             int
		code, config, says string
		class              error
	}{
		{http.StatusForbidden, "AccessDenied", role, "AccessDenied: signed for eu-north-1", backend.ErrDenied},
		{http.StatusNotFound, "", role, "STS", backend.ErrDenied},
		{http.StatusBadRequest, "Throttling", role, "Throttling: ", backend.ErrUnavailable},
		{http.StatusBadRequest, "IDPCommunicationError", role, "IDPCommunicationError: ", backend.ErrUnavailable},
		{http.StatusTooManyRequests, "", role, "429", backend.ErrUnavailable},
		{0, "", "credential_process = echo SecretAccessKey: canary7f3a\n", "process provider error", backend.ErrUnavailable},
	} {
		source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			region := strings.Split(r.Header.Get("Authorization"), "/")[2]
			w.WriteHeader(c.status)
			fmt.Fprintf(w, "<ErrorResponse><Error><Code>%s</Code><Message>signed for %s</Message></Error></ErrorResponse>", c.code, region)
		}))
		defer source.Close()
		file := filepath.Join(t.TempDir(), "config")
		testbed.NoError(t, os.WriteFile(file, []byte("[default]\n"+c.config), 0o600))
		for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_REGION": "", "AWS_CONFIG_FILE": file, "AWS_ENDPOINT_URL_STS": source.URL} {
			t.Setenv(name, value)
		}
		b := open(t, Options{Bucket: "b", Region: "eu-north-1", Endpoint: "http://127.0.0.1:1", PathStyle: true})
		_, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if text := fmt.Sprint(err); !errors.Is(err, c.class) || !strings.Contains(text, c.says) ||
			strings.ContainsAny(text, "\n") || strings.Contains(text, "canary") || strings.Contains(text, "s3:GetObject") || strings.Contains(text, "address of") {
			t.Errorf("%q; want %v with %q, no secret, and no hint about the store", text, c.class, c.says)
		}
	}
}

// The clock of this host is two hours ahead. STS, which says so in its own words, is asked again with the right time, and
// what it gives out is not over at once: each request would ask for more.
func TestAHostWhoseClockIsAheadHasCredentials(t *testing.T) {
	var asked atomic.Int32
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		now := time.Now().Add(-2 * time.Hour).UTC()
		w.Header().Set("Date", now.Format(http.TimeFormat))
		if at, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date")); at.Sub(now).Abs() > 15*time.Minute {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>Signature not yet current</Message></Error></ErrorResponse>")
			return
		}
		fmt.Fprintf(w, "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>c</AccessKeyId><SecretAccessKey>d</SecretAccessKey>"+
			"<SessionToken>e</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>", now.Add(time.Hour).Format(time.RFC3339))
	}))
	defer source.Close()
	store := httptest.NewServer(newMemory())
	defer store.Close()
	file := filepath.Join(t.TempDir(), "config")
	testbed.NoError(t, os.WriteFile(file, []byte("[default]\n"+role), 0o600))
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_CONFIG_FILE": file, "AWS_ENDPOINT_URL_STS": source.URL} {
		t.Setenv(name, value)
	}
	testbed.NoError(t, open(t, Options{Bucket: "b", Endpoint: store.URL, PathStyle: true}).Prepare(t.Context()))
	if n := asked.Load(); n != 2 {
		t.Errorf("STS was asked %d times; want once with the wrong time, and once with the right one", n)
	}
}

// A memory is a store whose clock is an hour ahead. It says of conditions what Oracle's says, and a proxy marks its ETags.
type memory struct {
	mu   sync.Mutex
	keys map[string]string
	n    map[string]int
}

func newMemory() *memory { return &memory{keys: map[string]string{}, n: map[string]int{}} }

func (m *memory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, _ := io.ReadAll(r.Body)
	key, now := r.URL.Path, time.Now().Add(time.Hour).UTC()
	tag := fmt.Sprintf(`"%d"`, m.n[key])
	fail := func(status int, code string) {
		w.WriteHeader(status)
		io.WriteString(w, "<Error><Code>"+code+"</Code><Message>No.</Message></Error>")
	}
	w.Header().Set("Date", now.Format(http.TimeFormat))
	if at, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date")); now.Sub(at).Abs() > 15*time.Minute {
		fail(http.StatusForbidden, "RequestTimeTooSkewed")
	} else if r.Method == http.MethodGet && m.n[key] == 0 {
		fail(http.StatusNotFound, "NoSuchKey")
	} else if r.Method == http.MethodGet {
		w.Header().Set("ETag", "W/"+tag)
		io.WriteString(w, m.keys[key])
	} else if match := r.Header.Get("If-Match"); match != "" && match != tag || match == "" && m.n[key] > 0 {
		fail(http.StatusPreconditionFailed, "IfMatchFailed")
	} else {
		m.keys[key], m.n[key] = string(text), m.n[key]+1
		w.Header().Set("ETag", fmt.Sprintf(`W/"%d"`, m.n[key]))
	}
}

// The first answer tells the store's time, and all others depend on it: a process that was denied all would end.
func TestAStoreWithAnotherClockAndOtherWordsServes(t *testing.T) {
	t.Parallel()
	store := httptest.NewServer(newMemory())
	defer store.Close()
	if err := open(t, Options{Bucket: "b", Endpoint: store.URL, PathStyle: true}).Prepare(t.Context()); err != nil {
		t.Error(err)
	}
}

// So are the authorities that the environment names, as those of CAFile. The store speaks HTTP/2 to whoever offers it, as the
// SDK does where it trusts those of the system.
func TestTheBundleOfTheEnvironmentIsReadAgain(t *testing.T) {
	store := httptest.NewUnstartedServer(newMemory())
	store.EnableHTTP2 = true
	store.StartTLS()
	defer store.Close()
	strange, err := os.ReadFile(testbed.StartS3(t, testbed.Options{TLS: true}).CAFile())
	testbed.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	t.Setenv("AWS_CA_BUNDLE", file)
	testbed.NoError(t, os.WriteFile(file, strange, 0o600))
	b := open(t, Options{Bucket: "b", Endpoint: store.URL, PathStyle: true})
	if err := b.Prepare(t.Context()); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("with another authority: %v", err)
	}
	right := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: store.Certificate().Raw})
	testbed.NoError(t, os.WriteFile(file, right, 0o600))
	if err := b.Prepare(t.Context()); err != nil {
		t.Errorf("the file has the right one: %v", err)
	}

	t.Setenv("AWS_CA_BUNDLE", "")
	b = open(t, Options{Bucket: "b", Endpoint: store.URL, PathStyle: true})
	system := b.leases.api.Options().HTTPClient.(*http.Client).Transport.(client.Patient).TLSClientConfig
	system.RootCAs = x509.NewCertPool()
	system.RootCAs.AddCert(store.Certificate())
	if err := b.Prepare(t.Context()); err != nil {
		t.Errorf("a store that offers HTTP/2, without a file: %v", err)
	}
}
