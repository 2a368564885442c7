package redis

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/lab/testbed"
)

// startSentinels starts three Sentinels that watch a master by the name "mymaster", and replace it when it has not
// answered for a second. They speak TLS if the master does.
func startSentinels(t *testing.T, master *testbed.RedisServer) (all []*goredis.Client) {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr())
	for range 3 {
		s := testbed.StartProgram(t, "redis-server", "redis-server", func(program, dir, addr string) []string {
			config := filepath.Join(dir, "sentinel.conf")
			_, own, _ := net.SplitHostPort(addr)
			text := fmt.Sprintf("bind 127.0.0.1\ndir %s\nport %s\n", dir, own)
			if ca := master.CAFile(); ca != "" {
				files := master.Dir()
				text = fmt.Sprintf("bind 127.0.0.1\ndir %s\nport 0\ntls-port %s\ntls-auth-clients optional\ntls-replication yes\ntls-ca-cert-file %s\ntls-cert-file %s\ntls-key-file %s\n",
					dir, own, ca, filepath.Join(files, "server-cert.pem"), filepath.Join(files, "server-key.pem"))
			}
			text += fmt.Sprintf("sentinel monitor mymaster %s %s 2\nsentinel down-after-milliseconds mymaster 1000\nsentinel failover-timeout mymaster 5000\n", host, port)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{program, config, "--sentinel"}
		})
		client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true, TLSConfig: master.TLSConfig()})
		t.Cleanup(func() { client.Close() })
		all = append(all, client)
	}
	testbed.Eventually(t, patience, "the Sentinels know each other and the replicas", func() error {
		for _, s := range all {
			m, err := s.Do(t.Context(), "SENTINEL", "MASTER", "mymaster").Slice()
			facts := fmt.Sprint(m)
			if err == nil && (!strings.Contains(facts, "num-other-sentinels 2") || strings.Contains(facts, "num-slaves 0")) {
				err = errors.New(facts)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return all
}
