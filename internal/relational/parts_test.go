package relational

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend/lease"
)

// Whatever names and values have in them, a message fits into 1 MiB, is not cut much smaller than that, and nothing is lost.
func TestMessagesFitIntoOneMebibyte(t *testing.T) {
	const items, changes = 6000, 600
	for _, letters := range []string{"n", `"`, "<", "日", `a"\<`} {
		name := strings.Repeat(letters, 196/len(letters))
		value := lease.Encode(&lease.Record{Election: name, ID: name, Metadata: strings.Repeat(letters+"\n", 50)})
		var keys [][2]string
		var rows []Row
		var verify []lease.Item
		for i := range items {
			k := lease.Key{Kind: lease.Records, Name: fmt.Sprint(name, i)}
			version := strings.Repeat("v", 41)
			keys = append(keys, [2]string{string(k.Kind), k.Name})
			verify = append(verify, lease.Item{Key: k, Version: version})
			if i < changes {
				rows = append(rows, Row{Change: i, Key: k, Version: version, Value: &value, Former: &value, Put: 1, Extra: version})
			}
		}
		fits(t, "keys of "+letters, cut(keys, func(k *[2]string) int { return sizeOfKey(&lease.Key{Kind: lease.Kind(k[0]), Name: k[1]}) }), items, func(part [][2]string) any { return part })
		fits(t, "rows of "+letters, cut(rows, (*Row).sizeOf), changes, func(part []Row) any { return part })
		fits(t, "versions of "+letters, cut(verify, sizeOfItem), items, func(part []lease.Item) any { return Versions(part) })
	}
	if parts := cut([]lease.Key(nil), sizeOfKey); len(parts) != 1 || len(parts[0]) != 0 {
		t.Errorf("of nothing there are %v; want one empty part", parts)
	}
}

func fits[T any](t *testing.T, what string, parts [][]T, items int, payload func([]T) any) {
	t.Helper()
	const rest = 8 << 10 // the statements
	for i, part := range parts {
		text, err := json.Marshal(payload(part))
		if err != nil {
			t.Fatal(err)
		}
		size := base64.StdEncoding.EncodedLen(len(text)) + rest
		if size > 1<<20 || i < len(parts)-1 && size < 1<<19 {
			t.Errorf("%s: part %d of %d has %d bytes", what, i, len(parts), size)
		}
		items -= len(part)
	}
	if items != 0 {
		t.Errorf("%s: %d are missing", what, items)
	}
}
