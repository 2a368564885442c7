package lease

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// Times of a manually written record are copied into the next record. A time that JSON cannot
// encode must not be.
func TestATimeThatCannotBeWrittenIsNotKept(t *testing.T) {
	for _, bad := range []string{"2026-01-01T00:00:00+24:00", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"} {
		r, _ := Decode(Records, fmt.Appendf(nil, `{"term":7,"id":"a","nonce":"n","elected":%q,"written":%q,"history":[{"term":6,"id":"b","from":%q,"to":%q}]}`, bad, bad, bad, bad)).(*Record)
		if r == nil {
			continue // the whole record is invalid
		}
		s := state{record: r}
		_, _, r.History = s.endLeadership(backend.Failed, time.Now().UTC())
		Encode(r) // panics if it cannot
	}
}

// The cache takes records apart. It must give back each field.
func TestARecordIsRememberedAsItWas(t *testing.T) {
	r := Record{
		Election: "jobs", Write: 1, Term: 2, ID: "a", Nonce: "b", Address: "c", Metadata: "d", TTL: 3, Renew: 4, Session: "e", Heartbeat: 5, Epoch: "f",
		End: backend.Failed, LastID: "g", Elected: time.Unix(6, 0).UTC(), Written: time.Unix(7, 0).UTC(), History: []backend.Leadership{{Term: 1}},
		Request: &Request{Kind: backend.Depose}, MovedTo: "h", MovedFrom: "i",
	}
	for i := range reflect.TypeFor[Record]().NumField() {
		if reflect.ValueOf(r).Field(i).IsZero() {
			t.Errorf("%s is not tested", reflect.TypeFor[Record]().Field(i).Name)
		}
	}
	for what, it := range map[string]Item{
		"a record":            {Key: Key{Records, "jobs"}, Version: "1", Created: "2", Order: 3, Value: &r, Edited: true, Old: true, Age: 4},
		"a vacant record":     {Key: Key{Records, "jobs"}, Version: "1", Value: &Record{Election: "jobs"}},
		"a copy":              {Key: Key{Records, "other"}, Version: "1", Value: &r},
		"an invalid record":   {Key: Key{Records, "jobs"}, Version: "1"},
		"a session":           {Key: Key{Sessions, "b"}, Version: "1", Value: &Session{ID: "a", Nonce: "b"}},
		"what is not there":   {Key: Key{Records, "jobs"}, Order: 9},
		"a record unlike all": {Key: Key{Records, ""}, Version: "1", Value: &Record{}},
	} {
		if got := remember(it).item(); !reflect.DeepEqual(got, it) {
			t.Errorf("%s is remembered as %+v with %+v; was %+v with %+v", what, got, got.Value, it, it.Value)
		}
	}
}
