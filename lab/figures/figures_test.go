package figures

import (
	"strings"
	"testing"
	"time"
)

const page = `
| store | with | SIGTERM: median, worst | SIGTERM, next | requests | 10 | 1,000 | memory | goroutines |
|---|---|---|---|---|---|---|---|---|
| etcd 3 | go-election | 4.8ms, 7.7ms | 3.3ms, 4.2ms | 18, 11 | 18, 7 | 18, 12 | 1.4 KB | 12 |
| etcd 3 | river | 23ms, 45ms | 44ms, 54ms | 156, 174 | one a schema | | | |
| leader gets SIGTERM, TTL 3s | MySQL | median 8.7ms, worst 16.7ms (15 times) | x |
| leader gets SIGTERM, TTL 3s, polling every TTL/3 | MySQL | median 2.6s, worst 3.2s (15 times) | x |
`

const guardPage = `
| store | with | kill -9: median, worst | panic | out of memory |
|---|---|---|---|---|
| etcd 3 | go-election | 8.1502s, 9.6859s | 8s, 9s | 8s, 9s |
| etcd 3 | go-election, guard: true | 11ms, 34ms | 12ms, 36ms | 13ms, 35ms |
| etcd 3 | river | 15s, 18s | | |
| MySQL 9.7 | go-election | 8.6s, 10s | 8s, 9s | 8s, 9s |
| MySQL 9.7 | go-election, guard: true | 18ms, 57ms | 12ms, 35ms | 13ms, 36ms |
| MySQL 9.7 | polling every TTL/3 | 8.4s, 10s | 8s, 9s | 8s, 9s |
`

func TestAllTablesAreRead(t *testing.T) {
	rows, err := Read(page, guardPage)
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if r := rows[0]; r.Store != "etcd 3" || !r.Ours || r.Crashed.Median != 8150200*time.Microsecond || r.NextDead.Worst != 4200*time.Microsecond || r.Guarded != (Gap{13 * time.Millisecond, 36 * time.Millisecond}) || r.Requests[1000] != 30 {
		t.Errorf("etcd is read as %+v", r)
	}
	if r := rows[1]; r.Ours || r.Requests[1] != 330 || len(r.Requests) != 1 {
		t.Errorf("a peer is read as %+v", r)
	}
	if r := rows[2]; r.Store != "MySQL" || !r.Ours || r.Crashed != (Gap{8600 * time.Millisecond, 10 * time.Second}) || r.Asked.Median != 8700*time.Microsecond {
		t.Errorf("MySQL is read as %+v", r)
	}
	if r := rows[3]; r.Ours || r.With != "polling every TTL/3" || r.Crashed.Worst != 10*time.Second || r.Guarded != (Gap{}) {
		t.Errorf("polling is read as %+v", r)
	}
}

func TestAPageWithoutTheTablesIsAnError(t *testing.T) {
	for _, text := range [][2]string{
		{"", guardPage}, {strings.Split(page, "| leader")[0], guardPage}, {strings.ReplaceAll(page, "4.8ms", "soon"), guardPage},
		{page, ""}, {page, strings.ReplaceAll(guardPage, "11ms", "soon")}, {page, strings.ReplaceAll(guardPage, "guard: true", "")},
	} {
		if rows, err := Read(text[0], text[1]); err == nil {
			t.Errorf("%d rows, no error, of\n%s", len(rows), text)
		}
	}
}
