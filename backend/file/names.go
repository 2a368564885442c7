//go:build linux || darwin

package file

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
)

// Kinds of files. For one election: <name>.lock, <name>.json and <name>.request.
const (
	lockSuffix    = ".lock"    // what is locked; its text is the last heartbeat
	recordSuffix  = ".json"    // who holds it and who held it
	requestSuffix = ".request" // of an operator
	memberSuffix  = ".member"  // <nonce>.member: a process that takes part
	registerFile  = "ELECTIONS"
	tempPrefix    = ".tmp-"
)

const longestName = 200 // of the encoded name; most file systems allow 255

// encode makes a file name of an election's name. Two names never have the same,
// also where case does not count or where Unicode is normalised: only lower-case
// letters, digits, "-", "_" and dots that are not first stand for themselves,
// other bytes are %xx. A long name ends in "~" and its hash.
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

// decode is the reverse of encode. It is not for names with a hash.
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
