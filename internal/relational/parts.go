package relational

import (
	"encoding/json"

	"github.com/go-election/go-election/backend/lease"
)

// maxMessage is about how many bytes of JSON one message has. In base64 and with its statements that is less than 1 MiB, the
// least that anybody sets max_allowed_packet of MySQL or MariaDB to.
const maxMessage = 700 << 10

// cut returns what fits into one message each, in this order; one empty part of nothing.
func cut[T any](all []T, sizeOf func(T) int) (parts [][]T) {
	from, size := 0, 0
	for i := range all {
		n := sizeOf(all[i])
		if size += n; size > maxMessage && i > from {
			parts, from, size = append(parts, all[from:i]), i, n
		}
	}
	return append(parts, all[from:])
}

// JSON returns data for a statement.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: strings, numbers and structs of them
	}
	return string(text)
}

// What a dialect adds to each part of a list is less than this.
const perPart = 64

func sizeOfKey(k lease.Key) int { return len(JSON(k)) + perPart }

func sizeOfItem(it lease.Item) int { return sizeOfKey(it.Key) + len(JSON(it.Version)) }

func sizeOfRow(r Row) int { return len(JSON(r)) + perPart }
