package relational

import (
	"encoding/json"

	"github.com/go-election/go-election/backend/lease"
)

// JSON returns the data of a message: strings, numbers, and structs and lists of them.
func JSON(data any) string {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // cannot happen
	}
	return string(text)
}

// maxMessage is about how many bytes of JSON one message has. In base64 and with its statements that is less than 1 MiB, the
// least that anybody sets max_allowed_packet of MySQL or MariaDB to.
const maxMessage = 700 << 10

// cut returns what fits into one message each, in this order; one empty part of nothing.
func cut[T any](all []T, sizeOf func(*T) int) (parts [][]T) {
	from, size := 0, 0
	for i := range all {
		n := sizeOf(&all[i])
		if size += n; size > maxMessage && i > from {
			parts, from, size = append(parts, all[from:i]), i, n
		}
	}
	return append(parts, all[from:])
}

// inJSON is about how many bytes a text has as a string in JSON.
func inJSON(text string) int {
	n := len(text) + 3
	for i := range len(text) {
		switch text[i] {
		case '"', '\\', '\n', '\r', '\t':
			n++
		case '<', '>', '&':
			n += 5
		}
	}
	return n
}

func sizeOfKey(k *lease.Key) int { return inJSON(string(k.Kind)) + inJSON(k.Name) + 2 }

func sizeOfItem(it *lease.Item) int { return sizeOfKey(&it.Key) + inJSON(it.Version) }

// sizeOf is that of a row whose dialect adds up to 60 bytes.
func (r *Row) sizeOf() int {
	n := sizeOfKey(&r.Key) + inJSON(r.Version) + 80
	for _, text := range []*string{r.Value, r.Former} {
		if text != nil {
			n += inJSON(*text)
		}
	}
	return n
}
