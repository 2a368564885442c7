package s3

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/registertest"
	"github.com/go-election/go-election/lab/testbed"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": testbed.S3AccessKey, "AWS_SECRET_ACCESS_KEY": testbed.S3SecretKey, "AWS_REGION": "us-east-1",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_ENDPOINT_URL": "http://127.0.0.1:1", // what must not be asked
	} {
		os.Setenv(name, value)
	}
	os.Exit(m.Run())
}

// newOptions returns options for a prefix of its own.
func newOptions(node *testbed.Daemon) Options {
	return Options{Bucket: testbed.S3Bucket, Prefix: "case-" + string(backend.NewNonce()[:12]) + "/", Endpoint: node.URL(), PathStyle: true, CAFile: node.CAFile()}
}

func open(t testing.TB, o Options) *Backend {
	t.Helper()
	return testbed.Open(t, Open, o)
}

// TestRegister runs what every register must pass.
func TestRegister(t *testing.T) {
	t.Parallel()
	node := testbed.SharedS3(t)
	var proxy *testbed.Proxy
	var direct *object
	registertest.Run(t, registertest.Harness{
		MaxBytes: limits.MaxBytes,
		NewStore: func(t testing.TB) func(testing.TB) register.Register {
			o := newOptions(node)
			direct = open(t, o).leases
			proxy = testbed.NewProxy(t, node.Addr())
			o.Endpoint = "http://" + proxy.Addr()
			return func(t testing.TB) register.Register { return open(t, o).leases }
		},
		Set: func(value []byte) {
			if err := direct.set(t.Context(), value); err != nil {
				t.Error(err)
			}
		},
		LoseAnswers: func() func() {
			proxy.CutReplies(true)
			return func() {
				proxy.CutReplies(false)
				proxy.Reset()
			}
		},
	})
}

// set replaces or deletes the object as an operator does.
func (o *object) set(ctx context.Context, value []byte) (err error) {
	if value == nil {
		_, err = o.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &o.Bucket, Key: &o.key})
	} else {
		_, err = o.api.PutObject(ctx, &s3.PutObjectInput{Bucket: &o.Bucket, Key: &o.key, Body: strings.NewReader(string(value))})
	}
	return err
}

// TestConformance runs the conformance suite on a store that all cases share.
func TestConformance(t *testing.T) {
	t.Parallel()
	node := testbed.SharedS3(t)
	conformance.Run(t, testbed.InTier(harness(func(t testing.TB) conformance.Store { return newStore(t, node) })))
}

// TestConformanceWithServerFaults runs the cases that need their own store.
func TestConformanceWithServerFaults(t *testing.T) {
	t.Parallel()
	testbed.OwnServers(t, harness(nil), func(t testing.TB) (conformance.Store, *testbed.Daemon) {
		node := testbed.StartS3(t, testbed.Options{})
		return newStore(t, node), node
	})
}

func harness(newStore func(testing.TB) conformance.Store) conformance.Harness {
	return conformance.Harness{NewStore: newStore, Parallel: true}
}

// newStore returns a store with a fresh prefix for one case, behind a proxy.
func newStore(t testing.TB, node *testbed.Daemon) conformance.Store {
	o := newOptions(node)
	admin := open(t, o).leases
	proxy := testbed.NewProxy(t, node.Addr())
	o.Endpoint = "http://" + proxy.Addr()
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend { return open(t, o) },
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				return admin.edit(func(items map[string]map[string]any) { delete(items, "record/"+election) })
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				text := "<script>\x1b]0;\u202e"
				return admin.edit(func(items map[string]map[string]any) {
					value := items["record/"+election]["value"].(map[string]any)
					value["id"], value["nonce"], value["address"], value["metadata"], value["heartbeat"] = text, text, "javascript:alert(1)\n", "\x00\x1b[2J", "2"
				})
			},
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxy))
	return store
}

// edit changes the document as an operator does.
func (o *object) edit(change func(items map[string]map[string]any)) error {
	for {
		value, version, err := o.Get(context.Background())
		if err != nil || version == "" {
			return errors.Join(err, errors.New("there is no document"))
		}
		var doc map[string]json.RawMessage
		var items map[string]map[string]any
		if err := errors.Join(json.Unmarshal(value, &doc), json.Unmarshal(doc["items"], &items)); err != nil {
			return err
		}
		change(items)
		if doc["items"], err = json.Marshal(items); err != nil {
			return err
		}
		if value, err = json.Marshal(doc); err != nil {
			return err
		}
		if _, err = o.Swap(context.Background(), version, value); !errors.Is(err, register.ErrChanged) {
			return err
		}
	}
}
