package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/internal/client"
)

// Name is how this backend is registered.
const Name = "s3"

// DefaultPrefix is the prefix of the objects if Options name none.
const DefaultPrefix = "election/"

// Options says which objects. Credentials are those that the SDK finds: the environment, the shared files,
// web identity, the roles of containers and instances.
type Options struct {
	// Bucket is the bucket's name. Required. It must be there.
	Bucket string `yaml:"bucket" json:"bucket"`

	// Prefix begins the names of the objects: up to 255 bytes of printable text that end in "/". Elections of
	// one are in one object: give unrelated fleets different ones. Default: DefaultPrefix.
	Prefix string `yaml:"prefix" json:"prefix"`

	// Region is that of the bucket. Default: that of the SDK's configuration. One of both is needed.
	Region string `yaml:"region" json:"region"`

	// Endpoint is the URL of a store that is not Amazon's, such as "https://s3.example.com", without a path.
	// What the environment says of endpoints is ignored. Default: Amazon S3 in Region.
	Endpoint string `yaml:"endpoint" json:"endpoint"`

	// PathStyle puts the bucket into the path instead of the host name, as most stores with an Endpoint need.
	PathStyle bool `yaml:"path_style" json:"path_style"`

	// CAFile is a PEM file with the authorities to trust instead of the system's. It is read again at each
	// connection that does not lead through a proxy. Default: AWS_CA_BUNDLE.
	CAFile string `yaml:"ca_file" json:"ca_file"`

	// Encryption asks the store to encrypt the object: "AES256" or "aws:kms", with the key KMSKey.
	// Default: as the bucket is configured.
	Encryption string `yaml:"encryption" json:"encryption"`
	KMSKey     string `yaml:"kms_key" json:"kms_key"`
}

// Format prints only the name of the type, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "s3.Options") }

// A Backend keeps leases in S3. It implements [backend.Backend].
type Backend struct {
	*lease.Backend
	leases, scratch *object
	won             atomic.Int32 // races on the scratch object that the store has passed
}

// Location implements [backend.Located].
func (b *Backend) Location() string {
	return clean.Location(b.leases.Bucket+"/"+b.leases.Prefix, b.leases.url.Host)
}

func init() { backend.Register(Name, Options{}, Open) }

// limits are what an object allows. Each write sends all of it.
var limits = register.Limits{Name: Name, MinTTL: time.Second, MaxTTL: 5 * time.Minute, MaxBytes: 8 << 20}

// Open checks o and returns a Backend. The store may be down.
func Open(o Options) (*Backend, error) {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	leases, err := connect(o)
	if err != nil {
		return nil, fmt.Errorf("s3: %w: %w", backend.ErrInvalid, err)
	}
	scratch := *leases
	leases.key, scratch.key = o.Prefix+"leases.json", o.Prefix+"race.txt"
	return &Backend{Backend: register.New(leases, limits), leases: leases, scratch: &scratch}, nil
}

// connect returns an object without a key. The store is the one that it names: a redirection is not followed.
func connect(o Options) (*object, error) {
	switch {
	case o.Bucket == "" || clean.Text(o.Bucket, 63, false) != o.Bucket || strings.ContainsAny(o.Bucket, "/:"):
		return nil, errors.New("bucket is not the name of a bucket") // an access point may have several
	case clean.Text(o.Prefix, backend.MaxName, false) != o.Prefix || !strings.HasSuffix(o.Prefix, "/"):
		return nil, fmt.Errorf("prefix %.300q is not up to 255 bytes of text that end in /", o.Prefix)
	case o.Encryption != "" && o.Encryption != "AES256" && o.Encryption != "aws:kms":
		return nil, fmt.Errorf("encryption is %.20q, not AES256 or aws:kms", o.Encryption)
	case o.KMSKey != "" && o.Encryption != "aws:kms":
		return nil, errors.New("kms_key needs encryption: aws:kms")
	}
	settings, err := load(context.Background(), o.Region)
	if err != nil {
		return nil, fmt.Errorf("the SDK's configuration: %w", err)
	}
	// It has the authorities of ca_bundle. By HTTP/1 each call has a connection of its own.
	transport := client.Patient{Transport: settings.HTTPClient.(*awshttp.BuildableClient).GetTransport()}
	transport.TLSHandshakeTimeout, transport.IdleConnTimeout = 2*time.Second, 30*time.Second
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	transport.TLSClientConfig.NextProtos = nil // or it offers HTTP/2 all the same
	if o.CAFile = cmp.Or(o.CAFile, os.Getenv("AWS_CA_BUNDLE")); o.CAFile != "" {
		if transport.TLSClientConfig, err = client.TLS(o.CAFile, "", ""); err != nil {
			return nil, err
		}
	}
	dialer := new(client.Dialer)
	transport.DialContext = dialer.DialContext
	transport.DialTLSContext = dialer.DialTLS(client.Fresh(transport.TLSClientConfig, o.CAFile))
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	settings.HTTPClient = &http.Client{Transport: transport, CheckRedirect: stay}
	o.Region = settings.Region
	if !smithyhttp.ValidHostLabel(strings.ReplaceAll(o.Region, ".", "-")) {
		return nil, fmt.Errorf("region %.63q is none", o.Region)
	}
	at, err := client.URL(cmp.Or(o.Endpoint, "https://s3."+o.Region+".amazonaws.com"))
	if err == nil && at.Path != "" && at.Path != "/" {
		err = errors.New("it has a path; the bucket has an option of its own")
	}
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	early := func(c *aws.CredentialsCacheOptions) { c.ExpiryWindow = time.Minute }
	settings.Credentials = aws.NewCredentialsCache(found{o.Region}, early)
	api := s3.NewFromConfig(settings, func(s *s3.Options) {
		s.BaseEndpoint, s.UsePathStyle = nil, o.PathStyle // not those of the environment
		if o.Endpoint != "" {
			s.BaseEndpoint = aws.String(at.Scheme + "://" + at.Host)
			s.EndpointOptions = s3.EndpointResolverOptions{}
			// Other stores do not know the newer ones.
			s.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			s.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
	return &object{api: api, url: at, Options: o}, nil
}

// load returns the SDK's configuration, which repeats only what was refused for this host's time of day.
func load(ctx context.Context, region string) (aws.Config, error) {
	quick := awshttp.NewBuildableClient().WithTimeout(2 * time.Second) // all calls wait for credentials
	again := retry.AddWithMaxAttempts(retry.AddWithMaxBackoffDelay(aws.NopRetryer{}, time.Millisecond), 2)
	again = retry.AddWithErrorCodes(again, "RequestTimeTooSkewed", "SignatureDoesNotMatch") // as STS says it
	return config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithHTTPClient(quick),
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = quick }),
		config.WithRetryer(func() aws.Retryer { return again }),
		config.WithLogger(logging.Nop{})) // or else it writes to stderr
}

// found are the credentials that the SDK finds now. It reads files once.
type found struct{ region string }

// Retrieve implements [aws.CredentialsProvider]. An error is text: what their source has answered is none of
// the store's, and what a program has printed instead of them may hold the secret.
func (f found) Retrieve(ctx context.Context) (c aws.Credentials, err error) {
	now, err := load(ctx, f.region)
	if err == nil {
		c, err = now.Credentials.Retrieve(ctx)
	}
	if err == nil {
		if time.Until(c.Expires) < time.Minute { // by a clock that is ahead: each request would ask again
			c.Expires = time.Now().Add(2 * time.Minute)
		}
		return c, nil
	}
	text, _, _ := strings.Cut(err.Error(), " output: ")
	answer, _ := errors.AsType[*awshttp.ResponseError](err)
	busy := retry.AddWithErrorCodes(retry.NewStandard(), "IDPCommunicationError").IsErrorRetryable(err)
	if err = errors.New(clean.Text(text, 500, false)); answer != nil && answer.HTTPStatusCode() > 0 && !busy {
		err = fmt.Errorf("%w: %w", backend.ErrDenied, err)
	}
	return c, err
}

// HandleFailToRefresh keeps the last ones until the store refuses them: their source may be away.
func (found) HandleFailToRefresh(_ context.Context, c aws.Credentials, err error) (aws.Credentials, error) {
	if c.HasKeys() {
		c.Expires, err = time.Now().Add(2*time.Minute), nil // less the ExpiryWindow
	}
	return c, err
}
