// Package testbed starts real servers for tests and torments them.
//
// A test asks for a server in one of two ways:
//
//   - [Shared] is one server of a kind for the whole test binary. It is cheap.
//     Each test takes a fresh [Database] on it. Nobody may torment it.
//   - [Start] is a server that belongs to one test. It may be killed, stopped,
//     restarted, made read-only, and have its clock stepped. [StartPair] is a
//     primary with an asynchronous replica that can be promoted.
//
// A [Proxy] stands between a client and any server, and cuts, delays, resets
// and loses what passes through.
//
// ZooKeeper, Consul and etcd have their own starters, for one node and for
// clusters. Each node is a [Daemon]. The nodes of a cluster live in a [Network],
// in which one can be cut off from its peers while its clients still reach it.
//
// # What must be installed
//
// "make deps" installs everything on Debian. A server that is missing skips its
// tests and names the package. With CI set in the environment it fails them in the full
// tier, except MySQL 9 and network namespaces where root may not make them.
//
// # Two tiers
//
// "go test -short" is the fast tier, "make test": there only TestConformance of each backend
// has a server, a shared one, and only the contract is run where time is real ([InTier]).
// All else that needs a server, or takes long, is left to "make verify" ([Full]). A busy
// machine does not fail the fast tier.
//
// ELECTION_TEST_MYSQL_DSN and ELECTION_TEST_MARIADB_DSN name servers that are
// already there, by a user who may create databases and users;
// ELECTION_TEST_ZOOKEEPER_SERVERS, ELECTION_TEST_CONSUL_ADDR and
// ELECTION_TEST_ETCD_ENDPOINTS name others, by host:port. They are used
// instead of starting one. Tests that torment such a server are skipped.
//
// The servers that a test has used or missed are attributes of the test
// ([testing.TB.Attr]), of which scripts/report makes a table.
//
// # What is left behind
//
// Nothing. Servers die with the test binary, however it ends: the kernel kills
// them when the thread that started them is gone. A shell that waits for the
// same end removes their data. Only templates of empty data directories are
// kept, under the user's cache directory.
//
// # Where the data is
//
// In memory, where there is much of it, so that a busy disk decides no test.
// With TMPDIR set, there. Servers sync as their defaults say in either case.
//
// Start servers outside of synctest bubbles: they live in real time.
package testbed
