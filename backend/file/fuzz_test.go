//go:build linux || darwin

package file

import (
	"bytes"
	"testing"
	"time"
)

// FuzzContent reads arbitrary text as a value, and a value that was written in between.
func FuzzContent(f *testing.F) {
	for _, text := range []string{"", "\n", "\n\n", "{}\n{}\n", "x\n1-2 1m0s \n", "null\nnull\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got := parse(7, text, "1-2"); got.version != "" {
			t.Errorf("%q is a value with version %q", text, got.version)
		}
		c := content{number: 7, value: text, file: "1-2", maxTTL: time.Minute}
		whole := c.encode()
		if got := parse(7, whole, "1-2"); !bytes.Equal(got.value, text) || got.version != c.version || !got.original || got.maxTTL != time.Minute {
			t.Errorf("%q is read back as %+v", text, got)
		}
		if got := parse(7, whole, "1-3"); got.original || got.version != c.version {
			t.Errorf("a copy is read as %+v", got)
		}
		if got := parse(8, whole, "1-2"); got.version != "" {
			t.Errorf("under another number it is read as %+v", got)
		}
		for _, damaged := range [][]byte{whole[:len(whole)-1], whole[1:], append([]byte("x"), whole...), append(bytes.Clone(whole), '\n')} {
			if got := parse(7, damaged, "1-2"); got.version != "" {
				t.Errorf("%q is a value with version %q", damaged, got.version)
			}
		}
	})
}
