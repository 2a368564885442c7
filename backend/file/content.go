//go:build linux || darwin

package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// A content is what the file of a value says. The zero content: there is none, or it is damaged.
type content struct {
	number   uint64
	value    []byte
	version  string // number and checksum; "": no value
	file     string // identity of the file that it was written to
	original bool   // it is in that file
	maxTTL   time.Duration
}

// maxTrailer is more than the last line has.
const maxTrailer = 512

// A trailer is the last line.
type trailer struct {
	File   string `json:"file"`    // device, inode and birth: those of a copy differ
	MaxTTL string `json:"max_ttl"` // of the process that wrote it
	Sum    string `json:"sum"`
}

// encode returns the text of the file, and sets the version.
func (c *content) encode() []byte {
	last := trailer{File: c.file, MaxTTL: c.maxTTL.String()}
	last.Sum = last.sum(c.number, c.value)
	line, err := json.Marshal(last)
	if err != nil {
		panic(err) // cannot happen: it has texts only
	}
	c.version = versionOf(c.number, last.Sum)
	return append(append(append(bytes.Clone(c.value), '\n'), line...), '\n')
}

func (t *trailer) sum(number uint64, value []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %q %q ", number, t.File, t.MaxTTL)
	h.Write(value)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func versionOf(number uint64, sum string) string { return fmt.Sprintf("%d-%s", number, sum) }

// parse reads the text of a file, which may come from anybody.
func parse(number uint64, text []byte, file string) content {
	damaged := content{number: number}
	body, ok := bytes.CutSuffix(text, []byte("\n"))
	end := bytes.LastIndexByte(body, '\n')
	var last trailer
	if !ok || end < 0 || len(body)-end > maxTrailer || json.Unmarshal(body[end+1:], &last) != nil {
		return damaged
	}
	value := body[:end]
	maxTTL, err := time.ParseDuration(last.MaxTTL)
	if err != nil || last.Sum != last.sum(number, value) {
		return damaged
	}
	return content{number, value, versionOf(number, last.Sum), last.File, last.File == file, maxTTL}
}
