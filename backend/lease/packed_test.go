package lease

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

func TestAPackedRecordIsTheSameAsBefore(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	all := Record{
		Election: "jobs", Write: 3, Term: 7, ID: "a", Nonce: "n", Address: "here", Metadata: "m", TTL: 1, Renew: 2,
		Session: "s", Heartbeat: 5, Epoch: "e", End: backend.Failed, LastID: "b", Elected: now, Written: now.Add(time.Microsecond),
		History: []backend.Leadership{{Term: 6, ID: "b"}}, Request: &Request{Kind: backend.Depose}, MovedTo: "to", MovedFrom: "from",
	}
	for i, v := 0, reflect.ValueOf(all); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("this test does not set %s", v.Type().Field(i).Name)
		}
	}

	for _, r := range []Record{all, {}, {Election: "jobs", Term: 1, Written: now}} {
		p := pack(&r)
		if got := p.record(r.Election); !reflect.DeepEqual(got, r) {
			t.Errorf("got %+v, want %+v", got, r)
		}
	}
}
