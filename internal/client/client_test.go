package client

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEarlierSecretsAreRemembered(t *testing.T) {
	var s Secret
	for _, v := range []string{"a", "b", "", "c"} {
		s.Set(v)
	}
	if got := s.All(); !slices.Equal(got, []string{"c", "a", "b"}) {
		t.Errorf("secrets %q", got)
	}
}

// A password of several lines is one that is just being written. A DSN of PostgreSQL may have them.
func TestASecretOfSeveralLinesIsReadAgainOnlyWhereItMayHaveThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	for _, lines := range []bool{false, true} {
		for _, text := range []string{"user=app\npassword=x\n", " \n", ""} {
			s := Secret{Lines: lines}
			s.Set("first")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if want := lines && strings.HasPrefix(text, "user"); s.ReadAgain(file) != want {
				t.Errorf("%q, where several lines are allowed: %v: read again: %v", text, lines, !want)
			}
		}
	}
}
