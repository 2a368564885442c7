//go:build linux || darwin

package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	valuePrefix = "leases-"
	valueSuffix = ".json"
	tempPrefix  = ".new-"
)

// nameOf returns the name of a value's file. The number grows with each swap.
func nameOf(number uint64) string {
	return valuePrefix + strconv.FormatUint(number, 10) + valueSuffix
}

// numberOf returns the number in a file's name; 0 if it is no name of a value.
func numberOf(name string) uint64 {
	text, _ := strings.CutPrefix(name, valuePrefix)
	text, _ = strings.CutSuffix(text, valueSuffix)
	n, _ := strconv.ParseUint(text, 10, 62)
	if nameOf(n) != name {
		return 0
	}
	return n
}

// A content is what the file of a value says. Without a version there is none, or it is damaged.
type content struct {
	number   uint64
	value    []byte
	version  string        // a checksum of all else
	file     string        // identity of the file that it was written to
	original bool          // it is in that file
	maxTTL   time.Duration // of the process that wrote it
}

// encode returns the text, and sets the version. The last line has identity, greatest TTL and version.
func (c *content) encode() []byte {
	c.version = c.sum()
	return fmt.Appendf(bytes.Clone(c.value), "\n%s %v %s\n", c.file, c.maxTTL, c.version)
}

func (c *content) sum() string {
	h := sha256.Sum256(fmt.Appendf(nil, "%d %s %v %s", c.number, c.file, c.maxTTL, c.value))
	return hex.EncodeToString(h[:16])
}

// parse reads the text of a file, which may come from anybody.
func parse(number uint64, text []byte, file string) content {
	damaged := content{number: number}
	body, whole := bytes.CutSuffix(text, []byte("\n"))
	end := bytes.LastIndexByte(body, '\n')
	last := strings.Split(string(body[end+1:]), " ")
	if !whole || end < 0 || len(last) != 3 {
		return damaged
	}

	maxTTL, err := time.ParseDuration(last[1])
	c := content{number: number, value: body[:end], version: last[2], file: last[0], maxTTL: maxTTL}
	c.original = c.file == file
	if err != nil || c.version != c.sum() {
		return damaged
	}
	return c
}
