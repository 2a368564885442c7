package connections

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/consul"
	"github.com/go-election/go-election/backend/etcd"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/backend/redis"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/lab/testbed"
)

// named start a server, and return a backend with the function that says which names the server shows of its connections.
var named = map[string]func(t *testing.T) (b backend.Backend, names func() string, err error){
	"mysql": func(t *testing.T) (backend.Backend, func() string, error) {
		db := testbed.Start(t, testbed.MariaDB, testbed.Options{Args: []string{"--performance-schema=ON"}}).Database(t)
		admin := testbed.OpenDB(t, db.Admin)
		b, err := mysql.Open(mysql.Options{Config: db.User})
		return b, func() (names string) {
			err := admin.QueryRowContext(t.Context(), "SELECT COALESCE(GROUP_CONCAT(DISTINCT ATTR_VALUE), '') FROM performance_schema.session_connect_attrs a JOIN information_schema.PROCESSLIST p ON p.ID = a.PROCESSLIST_ID WHERE ATTR_NAME = 'program_name' AND p.USER = ?", db.User.User).Scan(&names)
			testbed.NoError(t, err)
			return names
		}, err
	},
	"postgres": func(t *testing.T) (backend.Backend, func() string, error) {
		server, db := startPostgres(t, testbed.Options{})
		b, err := postgres.Open(postgres.Options{DSN: db.DSN("")})
		return b, func() string {
			return server.Value(t, "SELECT string_agg(DISTINCT application_name, ',') FROM pg_stat_activity WHERE usename = '"+db.User+"'")
		}, err
	},
	"redis": func(t *testing.T) (backend.Backend, func() string, error) {
		server := testbed.StartRedis(t, testbed.Options{})
		server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~{election}:*", "&{election}:*")
		for _, right := range strings.Fields(redis.Rights) { // no right but these is needed for the name
			server.Do(t, "ACL", "SETUSER", "app", right)
		}
		b, err := redis.Open(redis.Options{Addresses: []string{server.Addr()}, Username: "app", Password: "secret"})
		return b, func() (names string) {
			for line := range strings.Lines(fmt.Sprint(server.Do(t, "CLIENT", "LIST"))) {
				if strings.Contains(line, "user=app ") {
					_, after, _ := strings.Cut(line, " name=")
					name, _, _ := strings.Cut(after, " ")
					names = name
				}
			}
			return names
		}, err
	},
	"consul": func(t *testing.T) (backend.Backend, func() string, error) {
		target, err := url.Parse(testbed.StartConsul(t, testbed.Options{}).URL())
		testbed.NoError(t, err)
		agents := make(chan string, 1)
		forward := httputil.NewSingleHostReverseProxy(target)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case agents <- r.UserAgent():
			default:
			}
			forward.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		b, err := consul.Open(consul.Options{Address: server.URL})
		return b, func() string { return <-agents }, err
	},
	"etcd": func(t *testing.T) (backend.Backend, func() string, error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		testbed.NoError(t, err)
		agents := make(chan string, 1)
		server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			sent, _ := metadata.FromIncomingContext(stream.Context())
			agent, _, _ := strings.Cut(strings.Join(sent.Get("user-agent"), ""), " ")
			select {
			case agents <- agent:
			default:
			}
			return nil
		}))
		go server.Serve(listener)
		t.Cleanup(server.Stop)
		b, err := etcd.Open(etcd.Options{Endpoints: []string{listener.Addr().String()}})
		return b, func() string { return <-agents }, err
	},
}

// Who looks at a server sees whose the connections are.
func TestConnectionsHaveAName(t *testing.T) {
	t.Parallel()
	for name, start := range named {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, names, err := start(t)
			join(t, "a", 6*time.Second, b, err).Lead(nil)
			testbed.Eventually(t, patience, "the connections have the name", func() error {
				if got := names(); got != client.Name() {
					return fmt.Errorf("%q, want %q", got, client.Name())
				}
				return nil
			})
		})
	}
}

// A name that the DSN gives is kept.
func TestTheDSNNamesItsConnections(t *testing.T) {
	t.Parallel()
	server, db := startPostgres(t, testbed.Options{})
	b, err := postgres.Open(postgres.Options{DSN: db.DSN("") + "&application_name=billing"})
	lead(t, join(t, "a", 6*time.Second, b, err))
	if got := server.Value(t, "SELECT string_agg(DISTINCT application_name, ',') FROM pg_stat_activity WHERE usename = '"+db.User+"'"); got != "billing" {
		t.Errorf("its name is %q, want that of the DSN", got)
	}
}
