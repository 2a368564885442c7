// Package testbed starts real servers for tests and injects faults into them.
//
// A test asks for a server in one of two ways:
//
//   - [Shared] returns one server of a kind, which the whole test binary shares. It is
//     cheap. Each test takes a fresh [Database] on it. Faults are refused.
//   - [Start] starts a server for one test. The test may kill, stop and restart it, make
//     it read-only, and step its clock. [StartReplica] starts a replica to promote.
//
// A [Proxy] between a client and any server cuts, delays, resets and drops traffic.
//
// PostgreSQL, Redis, ZooKeeper, Consul, etcd, S3 and Kubernetes have their own starters, for one node and for
// standbys or clusters. Each node is a [Daemon]: a directory, a command, when it is up, and how it ends. Each
// node of a cluster lives on a [Host], which can be cut off from its peers while its clients still reach it.
//
// A [Fleet] has processes that use a store: of this module, and of other programs.
// What the tests of several drivers assert alike is in lab/drivertest.
//
// # What must be installed
//
// "make deps" installs everything on Debian. If a server is missing, its tests are
// skipped and name the package. With CI set, they fail in the full tier, except for
// MySQL 9 and for network namespaces, where they may not be created.
//
// # Two tiers
//
// "go test -short" is the fast tier, which "make test" runs. There, only TestConformance of each backend gets
// a server, a shared one, and it runs only the contract in real time ([InTier]). Every other test that needs
// a server or takes long is left to "make verify" ([Full]). A busy machine does not fail the fast tier.
//
// # Other versions
//
// With ELECTION_TEST_OLDEST set, etcd and Consul are the oldest versions that this module claims to support.
// ELECTION_TEST_POSTGRES_BIN names the directory with the programs of another PostgreSQL, and
// ELECTION_TEST_SEAWEEDFS the address of the SeaweedFS that scripts/seaweedfs runs, which the tests of S3
// then share instead of a versitygw.
//
// Each test records the servers that it used or missed as attributes
// ([testing.TB.Attr]). scripts/report makes a table of them.
//
// # Data and cleanup
//
// Nothing stays behind. The kernel kills the servers when the test binary ends, however
// it ends. A shell that waits for the same end removes their data.
//
// Servers keep their data in memory if there is enough of it, so that a busy disk does
// not decide tests. TMPDIR overrides that. Servers sync as their defaults say.
//
// Start servers outside of synctest bubbles: they run in real time.
package testbed
