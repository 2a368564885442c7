package ensemble

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// CheckPath reports what is wrong with an absolute path.
func CheckPath(path string) error {
	switch {
	case !strings.HasPrefix(path, "/") || len(path) < 2 || len(path) > 1024 || !utf8.ValidString(path):
		return fmt.Errorf("%.80q is not an absolute path of up to 1024 bytes", path)
	case path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/"):
		return fmt.Errorf("%.80q belongs to ZooKeeper itself", path)
	}
	for _, part := range strings.Split(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("%.80q has a part that is empty or made of dots", path)
		}
		for _, r := range part {
			if r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
				return fmt.Errorf("%.80q contains a character that ZooKeeper refuses", path)
			}
		}
	}
	return nil
}

// Parent returns the path of a node's parent; "" for a node below the root.
func Parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// Escape turns any election name into one part of a path, and different names into
// different parts.
func Escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_:@,=+~", c) >= 0 ||
			c == '.' && name != "." && name != ".."
		if plain {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Unescape undoes Escape; ok is false for what Escape cannot have returned.
func Unescape(part string) (name string, ok bool) {
	name, err := url.PathUnescape(part)
	return name, err == nil && Escape(name) == part
}
