package client

import (
	"bytes"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
)

// A server answers each connection at once, as Consul does when it is full. Requests get the answer, and net/http prints
// none to stderr.
func TestWhatComesBeforeARequestIsItsAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
			c.(*net.TCPConn).CloseWrite()
			defer c.Close()
		}
	}()
	var printed bytes.Buffer
	defer log.SetOutput(log.Writer())
	log.SetOutput(&printed)

	d := new(net.Dialer)
	transport := &http.Transport{DialContext: AskFirst(d.DialContext)}
	defer transport.CloseIdleConnections()
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+l.Addr().String(), nil)
			answer, err := transport.RoundTrip(r)
			if err != nil || answer.StatusCode != http.StatusTooManyRequests {
				t.Errorf("a request: %v, %v", answer, err)
			}
		})
	}
	wg.Wait()
	if printed.Len() > 0 {
		t.Errorf("printed to stderr:\n%.1000s", &printed)
	}
}
