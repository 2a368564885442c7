package relational

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend/lease"
)

// Whatever names and values have in them, a message fits into 1 MiB, is not cut much smaller than that, and nothing is lost.
func TestMessagesFitIntoOneMebibyte(t *testing.T) {
	const items, changes = 6000, 600
	for _, letters := range []string{"n", `"`, "<", "日", `a"\<`, "\x01"} {
		name := strings.Repeat(letters, 196/len(letters))
		value := lease.Encode(&lease.Record{Election: name, ID: name, Metadata: strings.Repeat(letters+"\n", 50)})
		var verify [][3]string
		var rows [][]Row
		for i := range items {
			k := lease.Key{Kind: lease.Records, Name: fmt.Sprint(name, i)}
			version := strings.Repeat("v", 41)
			verify = append(verify, [3]string{string(k.Kind), k.Name, version})
			if i < changes {
				rows = append(rows, []Row{{Change: i, Key: k, Version: version, Value: &value, Former: &value, Put: 1}})
			}
		}
		fits(t, "rows of "+letters, rows)
		fits(t, "versions of "+letters, verify)
	}
	if parts := cut([]string(nil)); len(parts) != 1 || len(parts[0]) != 0 {
		t.Errorf("of nothing there are %v; want one empty part", parts)
	}
}

func fits[T any](t *testing.T, what string, all []T) {
	t.Helper()
	const rest = 8 << 10 // the statements
	parts, left := cut(all), len(all)
	for i, part := range parts {
		size := base64.StdEncoding.EncodedLen(len(JSON(part))) + rest
		if size > 1<<20 || i < len(parts)-1 && size < 1<<19 {
			t.Errorf("%s: part %d of %d has %d bytes", what, i, len(parts), size)
		}
		left -= len(part)
	}
	if left != 0 {
		t.Errorf("%s: %d are missing", what, left)
	}
}
