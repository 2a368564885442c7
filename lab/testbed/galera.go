package testbed

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// StartGalera starts two nodes of a Galera cluster of MariaDB. The first one may end in order, by
// [Server.Terminate], and come back by [Server.Start]: it gets from the second what it has missed.
func StartGalera(t testing.TB) (first, second *Server) {
	t.Helper()
	provider := glob("/usr/lib/galera/libgalera_smm.so", "/usr/lib*/galera-4/libgalera_smm.so")
	if provider == "" {
		unavailable(t, &missing{MariaDB, "Galera", "Debian: galera-4"})
	}
	group := []string{loopback(freePort()), loopback(freePort())}
	args := func(i int) []string {
		return []string{
			"--wsrep-on=ON", "--wsrep-provider=" + provider, "--wsrep-cluster-address=gcomm://" + strings.Join(group, ","),
			"--wsrep-provider-options=gcache.size=8M;gmcast.listen_addr=tcp://" + group[i] + ";ist.recv_addr=" + loopback(freePort()),
			"--wsrep-node-address=" + group[i], "--wsrep-sst-method=mysqldump", "--wsrep-sst-auth=root:", "--wsrep-sst-receive-address=AUTO",
			"--binlog-format=ROW", "--default-storage-engine=InnoDB", "--innodb-autoinc-lock-mode=2",
		}
	}
	const bootstrap = "--wsrep-new-cluster"

	// The second node begins with what the first one has, so that nothing has to be transferred.
	first = Start(t, Options{Kind: MariaDB, Args: append(args(0), bootstrap)})
	second = Start(t, Options{Kind: MariaDB, Args: []string{"--wsrep-on=OFF"}})
	first.Terminate(t)
	second.Terminate(t)
	noError(t, os.RemoveAll(second.data()))
	noError(t, os.CopyFS(second.data(), os.DirFS(first.data())))
	first.Start(t)
	second.setArgs(args(1))
	second.Start(t)
	Eventually(t, startLimit, "the second node has joined", func() error {
		var name, state string
		err := second.db.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'wsrep_local_state_comment'").Scan(&name, &state)
		if err == nil && state != "Synced" {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
	first.setArgs(args(0)) // when it comes back, it joins the cluster that is there
	return first, second
}
