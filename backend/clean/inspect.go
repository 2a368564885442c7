package clean

import (
	"fmt"
	"strings"

	"github.com/go-election/go-election/backend"
)

// Where returns the location of b's store, safe to print on a terminal, or "" if b is not
// [backend.Located].
func Where(b backend.Backend) string {
	if l, ok := b.(backend.Located); ok {
		return Text(l.Location(), 255, false)
	}
	return ""
}

// Location returns a location: these addresses, and the place within the store. Of a URL it keeps
// only the host, since people put passwords into the rest.
func Location(within string, addresses ...string) string {
	hosts := make([]string, len(addresses))
	for i, a := range addresses {
		if _, rest, ok := strings.Cut(a, "://"); ok {
			a, _, _ = strings.Cut(rest, "/")
			a, _, _ = strings.Cut(a, "?")
		}
		hosts[i] = a[strings.LastIndexByte(a, '@')+1:]
	}
	return strings.Join(hosts, ",") + "/" + strings.Trim(within, "/")
}

// Diagnosticf returns a diagnostic with a text formatted by [fmt.Sprintf], made safe to print
// and cut to 1,000 bytes, since parts of it may come from a server.
func Diagnosticf(warning bool, what, format string, args ...any) backend.Diagnostic {
	return backend.Diagnostic{What: what, Text: Text(fmt.Sprintf(format, args...), 1000, true), Warning: warning}
}
