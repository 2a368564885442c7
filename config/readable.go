package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strings"

	"github.com/go-election/go-election/backend"
)

// A secretFile is a file that holds a secret, as the configuration names it.
type secretFile struct {
	at   place
	key  string
	name string
}

var (
	secretKey     = regexp.MustCompile(`(^|[._])(password|token)$`)
	secretFileKey = regexp.MustCompile(`\.(token|key)_file$`)
	dsnPassword   = regexp.MustCompile(`:[^@/]+@`)
)

// noteSecret remembers where a value of a store's section is a secret, or names the file of one.
func (d *decoder) noteSecret(at place, key string, v reflect.Value) {
	if v.Kind() != reflect.String {
		return
	}
	value := v.String()
	switch {
	case secretFileKey.MatchString(key):
		d.secretFiles = append(d.secretFiles, secretFile{at, key, value})
	case at.line == 0: // in the environment
	case secretKey.MatchString(key), strings.HasSuffix(key, ".dsn") && dsnPassword.MatchString(value):
		d.secretFiles = append(d.secretFiles, secretFile{at, key, d.file})
	}
}

// Warnings describes what an operator should look at, although Open accepts it: files with secrets
// that every user of this machine can read. Those are the configuration, if it has a password, and the
// files that it names, also for stores that are not selected. "elect doctor" shows them. Open does
// not log them: in a container such files are common, and do no harm. On Windows there are none.
func (c *Config) Warnings() (list []string) {
	if runtime.GOOS == "windows" {
		return nil // the mode of a file says nothing about its readers
	}
	d := c.source.decoder()
	for _, name := range backend.Names() {
		d.checkSection(name)
	}
	seen := map[string]bool{}
	for _, f := range d.secretFiles {
		info, err := os.Stat(f.name)
		if err != nil || seen[f.name] || info.Mode().Perm()&0o004 == 0 {
			continue
		}
		seen[f.name] = true
		e := Error{Source: f.at.source, Line: f.at.line, Key: f.key, Problem: fmt.Sprintf(
			"every user of this machine can read %s, which holds a secret: its mode is %04o; chmod o-r", f.name, info.Mode().Perm())}
		list = append(list, strings.TrimPrefix(e.Error(), "config: "))
	}
	return list
}
