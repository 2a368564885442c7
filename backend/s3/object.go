package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/internal/client"
)

// An object is a register. A version is an ETag.
type object struct {
	Options
	api *s3.Client
	url *url.URL // of the store
	key string
}

func (o *object) Close() error {
	o.api.Options().HTTPClient.(*http.Client).CloseIdleConnections()
	return nil
}

func (o *object) Get(ctx context.Context) (value []byte, version string, err error) {
	got, err := o.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &o.Bucket, Key: &o.key})
	if code(err) == "NoSuchKey" {
		return nil, "", nil
	}
	if err == nil {
		defer got.Body.Close()
		value, err = io.ReadAll(io.LimitReader(got.Body, int64(limits.MaxBytes)+1))
	}
	if err != nil {
		return nil, "", o.fail("read", err)
	}
	if len(value) > limits.MaxBytes {
		return nil, "", fmt.Errorf("%w: object %q has more than %d bytes: it is none of ours",
			backend.ErrDenied, o.key, limits.MaxBytes)
	}
	version, err = tag(got.ETag)
	return value, version, err
}

func (o *object) Swap(ctx context.Context, version string, value []byte) (now string, err error) {
	put := &s3.PutObjectInput{Bucket: &o.Bucket, Key: &o.key, Body: bytes.NewReader(value)}
	put.ContentType, put.CacheControl = aws.String("application/json"), aws.String("no-store")
	switch version {
	case "":
		put.IfNoneMatch = aws.String("*")
	case "*", `""`: // in a header that is any version, and to some stores no condition
		return "", register.ErrChanged
	default:
		put.IfMatch = &version
	}
	put.ServerSideEncryption = types.ServerSideEncryption(o.Encryption)
	if o.KMSKey != "" {
		put.SSEKMSKeyId = &o.KMSKey
	}
	got, err := o.api.PutObject(ctx, put)
	if err == nil {
		return tag(got.ETag)
	}
	switch code(err) {
	case "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey",
		"IfMatchFailed", "IfNoneMatchFailed": // of Oracle
		return "", register.ErrChanged
	}
	return "", o.fail("write", err)
}

// tag returns which version there is. Proxies that compress mark it as weak, which is never a match.
func tag(etag *string) (string, error) {
	version := strings.TrimPrefix(aws.ToString(etag), "W/")
	if strings.Trim(version, `"*`) == "" {
		return "", fmt.Errorf("%w: the store says no ETag; is this its address?", backend.ErrDenied)
	}
	return version, nil
}

// code returns the code of an error that the store has answered; "" for none.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// fail returns err with its class. What is no answer of a store may be one of a proxy.
func (o *object) fail(what string, err error) error {
	class, proxy := backend.ErrDenied, client.ByProxy(o.url)
	answer, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok || answer.HTTPStatusCode() == 0 {
		if !errors.Is(err, backend.ErrDenied) && !client.RefusesTLS(err.Error()) {
			class = backend.ErrUnavailable
		}
		if o.Endpoint != "" && strings.Contains(err.Error(), "//"+o.Bucket+"."+o.url.Host) {
			proxy += "; path_style: true asks " + o.url.Host
		}
		return fmt.Errorf("%w: %s %q: %w%s", class, what, o.key, err, proxy)
	}
	status := answer.HTTPStatusCode()
	text, hint := http.StatusText(status), "; is this the address of the store?"+proxy
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorMessage() != text { // or the SDK's
		text, hint = api.ErrorCode()+": "+api.ErrorMessage(), ""
	}
	switch in := answer.Response.Header.Get("X-Amz-Bucket-Region"); {
	case status == http.StatusRequestEntityTooLarge:
		hint = fmt.Sprintf("; let the proxy pass %d bytes (client_max_body_size)%s", limits.MaxBytes, proxy)
	case in != "" && in != o.Region:
		hint = "; the bucket is in region " + clean.Text(in, 63, false)
	case code(err) == "AccessDenied":
		hint = "; allow s3:GetObject and s3:PutObject on the prefix, and s3:ListBucket on the bucket"
	}
	if status == 400 || status == 401 || status == 403 {
		o.api.Options().Credentials.(*aws.CredentialsCache).Invalidate() // their file may be another one
	}
	busy := retry.AddWithErrorCodes(retry.NewStandard(), "OperationAborted", "ConditionalRequestConflict")
	failing := status >= 500 && status != 501 && status != 507
	if failing || status == 408 || status == 429 || busy.IsErrorRetryable(err) { // KMS's have status 400
		class, hint = backend.ErrUnavailable, proxy
	}
	return fmt.Errorf("%w: %s %q: %d %s%s", class, what, o.key, status, clean.Text(text, 300, false), hint)
}
