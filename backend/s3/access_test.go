package s3

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

func TestOptionsAreChecked(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.pem")
	testbed.NoError(t, os.WriteFile(none, []byte("no certificate"), 0o600))
	for what, o := range map[string]Options{
		"no bucket":               {},
		"a bucket with a path":    {Bucket: "a/b"},
		"a bucket in each region": {Bucket: "arn:aws:s3::123456789012:accesspoint:mfzwi23gnjvgw.mrap"},
		"a prefix without /":      {Bucket: "b", Prefix: "elections"},
		"a long prefix":           {Bucket: "b", Prefix: strings.Repeat("p", 300) + "/"},
		"an unknown encryption":   {Bucket: "b", Encryption: "rot13"},
		"a key without KMS":       {Bucket: "b", KMSKey: "k"},
		"a region with its line":  {Bucket: "b", Endpoint: "https://s3.example.com", Region: "eu-central-1\n"},
		"an endpoint without //":  {Bucket: "b", Endpoint: "user:secret@"},
		"no such port":            {Bucket: "b", Endpoint: "http://127.0.0.1:90000"},
		"an endpoint with a path": {Bucket: "b", Endpoint: "https://s3.example.com/b"},
		"a file that is missing":  {Bucket: "b", CAFile: none + "x"},
		"no certificate":          {Bucket: "b", CAFile: none},
	} {
		_, err := Open(o)
		if !errors.Is(err, backend.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
}

// The place is what the configuration names: AWS_ENDPOINT_URL, which names another one here, is not asked.
func TestTheEnvironmentNamesNoEndpoint(t *testing.T) {
	for _, o := range []Options{{Bucket: "b"}, {Bucket: "b", Endpoint: "https://s3.example.com"}} {
		b := open(t, o)
		if base := b.leases.api.Options().BaseEndpoint; base != nil && *base != o.Endpoint {
			t.Errorf("with endpoint %q requests go to %s", o.Endpoint, *base)
		}
		if !strings.HasSuffix(b.Location(), "/b/election") {
			t.Errorf("the location is %s", b.Location())
		}
		// Amazon's buckets may lock objects by default: then a write needs a checksum. Other stores know only the oldest ones.
		if kind := b.leases.api.Options().RequestChecksumCalculation; (kind == aws.RequestChecksumCalculationWhenSupported) != (o.Endpoint == "") {
			t.Errorf("with endpoint %q checksums are of kind %d", o.Endpoint, kind)
		}
	}
	for _, name := range []string{"AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"} {
		t.Setenv(name, "true")
		err := open(t, Options{Bucket: "b", Endpoint: "http://127.0.0.1:1", PathStyle: true}).Prepare(t.Context())
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("with %s: %v; want the endpoint to be asked", name, err)
		}
	}
}

func TestDenialsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	testbed.Full(t, "is about a server")
	node := testbed.SharedS3(t)
	o := newOptions(node)
	missing, elsewhere := o, o
	missing.Bucket = "no-such-bucket"
	elsewhere.Region = "eu-north-1"
	denied := map[string]Options{"NoSuchBucket": missing}
	if !strings.HasPrefix(node.Version(), "SeaweedFS") { // which takes every region
		denied["AuthorizationHeaderMalformed"] = elsewhere
	}
	for text, o := range denied {
		b := open(t, o)
		err := b.Prepare(t.Context())
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want ErrDenied with %q", err, text)
		}
		if strings.Contains(err.Error(), testbed.S3SecretKey) {
			t.Errorf("a secret is in %v", err)
		}
	}
	o.Endpoint = "http://127.0.0.1:1"
	if err := open(t, o).Prepare(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a store that is down: %v", err)
	}
	o.Endpoint, o.PathStyle = "http://localhost:1", false
	if err := open(t, o).Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "path_style: true asks localhost:1") {
		t.Errorf("a bucket in the host name: %v", err)
	}
}

func TestAStoreWithTLSIsTrustedByItsAuthority(t *testing.T) {
	t.Parallel()
	node := testbed.StartS3(t, testbed.Options{TLS: true})
	o := newOptions(node)
	if err := open(t, o).Prepare(t.Context()); err != nil {
		t.Error(err)
	}
	o.CAFile = ""
	if err := open(t, o).Prepare(t.Context()); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the authority: %v", err)
	}
}
