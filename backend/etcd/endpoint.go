package etcd

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// endpointURL checks the address of a server and returns it as a URL: http, or https if secure or if
// the address says so. Its errors show no part of an address that was not understood, because it
// may contain a password.
func endpointURL(e string, secure bool) (string, error) {
	if !strings.Contains(e, "://") {
		if e = "http://" + e; secure {
			e = "https" + strings.TrimPrefix(e, "http")
		}
	}
	u, err := url.Parse(e)
	switch {
	case err != nil || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("an endpoint is not of the form https://host:2379")
	case u.User != nil:
		return "", errors.New("an endpoint contains credentials: set username and password")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("an endpoint has the scheme %.10q: http or https are known", u.Scheme)
	case u.Scheme == "http" && secure:
		return "", fmt.Errorf("TLS is configured, and endpoint %.100q is http", u.Host)
	}
	return u.Scheme + "://" + u.Host, nil
}
