package consul

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// Times in a record that was edited manually are part of what is written next. So times that
// cannot be encoded must not be kept.
func TestATimeThatCannotBeWrittenIsNotKept(t *testing.T) {
	for _, bad := range []string{"2026-01-01T00:00:00+24:00", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"} {
		e := entry{
			lockPair: &api.KVPair{Value: fmt.Appendf(nil, `{"term":7,"holder":{"id":"a","nonce":"n"},"at":%q}`, bad)},
			termPair: &api.KVPair{Value: fmt.Appendf(nil, `{"term":7,"id":"a","nonce":"n","from":%q,"to":%q,"history":[{"term":6,"id":"b","from":%q,"to":%q}]}`, bad, bad, bad, bad)},
		}
		e.parse()
		encode(e.lock)
		e.term.close(backend.Failed, time.Now(), 0)
		encode(e.term) // panics if it cannot
	}
}
