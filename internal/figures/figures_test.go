package figures

import (
	"strings"
	"testing"
	"time"
)

const page = `
| store | with | killed: median, worst | SIGTERM: median, worst | SIGTERM, next | requests | 10 | 1,000 | memory | goroutines |
|---|---|---|---|---|---|---|---|---|---|
| etcd 3 | go-election | 8.1502s, 9.6859s | 4.8ms, 7.7ms | 3.3ms, 4.2ms | 18, 11 | 18, 7 | 18, 12 | 1.4 KB | 12 |
| etcd 3 | river | 15s, 18s | 23ms, 45ms | 44ms, 54ms | 156, 174 | one a schema | | | |
| leader killed, TTL 10s | MySQL | median 0.86 TTL, worst 1.00 TTL (45 times) | x |
| leader killed, TTL 10s, polling every TTL/3 | MySQL | median 0.84 TTL, worst 1.00 TTL (45 times) | x |
| leader gets SIGTERM, TTL 3s | MySQL | median 8.7ms, worst 16.7ms (15 times) | x |
`

const guardPage = `
| median, worst | etcd | MySQL |
|---|---|---|
| without a guard | 8 s, 10 s | 8 s, 10 s |
| with a guard | 11 ms, 34 ms | 18 ms, 57 ms |
`

func TestAllTablesAreRead(t *testing.T) {
	rows, err := Read(page, guardPage)
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if r := rows[0]; r.Store != "etcd 3" || !r.Ours || r.Killed.Median != 8150200*time.Microsecond || r.NextDead.Worst != 4200*time.Microsecond || r.Guarded.Worst != 34*time.Millisecond || r.Requests[1000] != 30 {
		t.Errorf("etcd is read as %+v", r)
	}
	if r := rows[1]; r.Ours || r.Requests[1] != 330 || len(r.Requests) != 1 {
		t.Errorf("a peer is read as %+v", r)
	}
	if r := rows[2]; r.Store != "MySQL" || !r.Ours || r.Killed != (Gap{8600 * time.Millisecond, 10 * time.Second}) || r.Asked.Median != 8700*time.Microsecond {
		t.Errorf("MySQL is read as %+v", r)
	}
	if r := rows[3]; r.Ours || r.With != "polling every TTL/3" || r.Guarded != (Gap{}) {
		t.Errorf("polling is read as %+v", r)
	}
}

func TestAPageWithoutTheTablesIsAnError(t *testing.T) {
	for _, text := range [][2]string{
		{"", guardPage}, {strings.Split(page, "| leader")[0], guardPage}, {strings.ReplaceAll(page, "8.1502s", "soon"), guardPage},
		{page, ""}, {page, strings.ReplaceAll(guardPage, "11 ms", "soon")},
	} {
		if rows, err := Read(text[0], text[1]); err == nil {
			t.Errorf("%d rows, no error, of\n%s", len(rows), text)
		}
	}
}
