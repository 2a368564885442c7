//go:build linux || darwin

package file

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
)

// Kinds of files. An election has <name>.lock, <name>.json and <name>.request.
const (
	lockSuffix    = ".lock"    // locked by the leader; holds a lockLine
	recordSuffix  = ".json"    // a record: the current leadership and past ones
	requestSuffix = ".request" // an operator's request
	memberSuffix  = ".member"  // <nonce>.member: a process that takes part
	registerFile  = "ELECTIONS"
	tempPrefix    = ".tmp-"
)

const longestName = 200 // of the encoded name; most file systems allow 255

// encode turns an election's name into a file name. Two names never get the same one,
// even on a file system that ignores case or normalises Unicode: lower-case letters,
// digits, "-", "_" and dots after the first byte stay, and all other bytes become %xx. A
// long name ends in "~" and its hash.
func encode(name string) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for i, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0 {
			s.WriteByte(c)
		} else {
			s.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	if s.Len() <= longestName {
		return s.String()
	}
	sum := sha256.Sum256([]byte(name))
	return s.String()[:100] + "~" + hex.EncodeToString(sum[:])
}

// decode reverses encode. It cannot decode names that end in a hash.
func decode(file string) (name string, ok bool) {
	var s strings.Builder
	for i := 0; i < len(file); i++ {
		if file[i] != '%' {
			s.WriteByte(file[i])
			continue
		}
		if i+3 > len(file) {
			return "", false
		}
		b, err := hex.DecodeString(file[i+1 : i+3])
		if err != nil {
			return "", false
		}
		s.Write(b)
		i += 2
	}
	return s.String(), encode(s.String()) == file
}

// path returns the path of one of an election's files.
func (b *Backend) path(name, suffix string) string {
	return filepath.Join(b.dir, encode(name)+suffix)
}
