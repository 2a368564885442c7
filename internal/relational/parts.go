package relational

import "encoding/json"

// JSON returns the data of a message: strings, numbers, and structs and lists of them.
func JSON(data any) string {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // cannot happen
	}
	return string(text)
}

// maxMessage is how many bytes of JSON one message has. In base64 and with its statements that is less than 1
// MiB, the least that anybody sets max_allowed_packet of MySQL or MariaDB to.
const maxMessage = 700 << 10

// cut returns what fits into one message each, in this order; one empty part of nothing.
func cut[T any](all []T) (parts [][]T) {
	from, size := 0, 0
	for i, one := range all {
		n := len(JSON(one)) + 1
		if size += n; size > maxMessage && i > from {
			parts, from, size = append(parts, all[from:i]), i, n
		}
	}
	return append(parts, all[from:])
}
