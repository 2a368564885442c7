package backend_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// Whoever knows a nonce can forge a renewal, so it must not get into logs, errors or JSON by accident.
func TestANonceIsNeverPrintedWhole(t *testing.T) {
	nonce := backend.NewNonce()
	candidate := backend.Candidate{ID: "a", Nonce: nonce}
	lease := backend.Lease{Election: "jobs", Holder: candidate, Request: backend.Request{Kind: backend.Accept, Nonce: nonce}}
	for _, v := range []any{
		nonce, &nonce, candidate, &candidate, lease, lease.Request, lease.Held(), backend.Bid{Candidate: candidate, Expected: lease}, backend.Answer{Lease: lease},
		backend.Record{Lease: lease, Elected: time.Now()}, []backend.Member{{Candidate: candidate}},
	} {
		var all bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&all, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&all, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&all, nil)).Info("x", "v", v)
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
		if strings.Contains(all.String(), string(nonce[:5])) || strings.Contains(all.String(), fmt.Sprintf("%x", string(nonce[:5]))) {
			t.Errorf("%T shows a nonce: %s", v, all.String())
		}
		if !strings.Contains(all.String(), nonce.Short()) {
			t.Errorf("%T does not show the first digits, which tell processes apart: %s", v, all.String())
		}
	}
}
