package client

import (
	"slices"
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
