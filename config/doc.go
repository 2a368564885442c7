// Package config makes a running manager of one YAML file and the environment.
//
//	import _ "github.com/go-election/go-election/backend/all"
//
//	m, err := config.Open(ctx, "election.yaml")
//
// The file names the store and, in a section for each, what the stores need to
// know. Sections may all be present; backend picks one. So the store is changed by
// changing one word, or one environment variable:
//
//	backend: mysql                          # ELECTION_BACKEND=zookeeper
//	ttl: 10s
//	mysql:
//	  dsn_file: /run/secrets/mysql-dsn      # or dsn: app:secret@tcp(db:3306)/app
//	zookeeper:
//	  servers: [zk1:2181, zk2:2181]
//
// A program knows the stores that it imports: backend/all for every one, or just
// those that it wants, and only their clients are linked then.
//
// [Load] reads and checks, [Config.Validate] asks the store's package and compares
// timings with the store's limits, [Config.Open] starts the manager. None of them
// needs the store to be up. What cannot be written in a file (a logger, a health
// check) is set on [Config].Election between Load and Open.
//
// # The environment
//
// Every key has an environment variable, which wins over the file: ELECTION_TTL for
// ttl, ELECTION_MYSQL_DSN for mysql.dsn. The prefix can be chosen ([Options]). A
// list is written as a,b and a map as a=b,c=d. An empty variable is as good as none. A variable with the prefix that
// belongs to no key is an error, as a key in the file is, except those of stores
// that the program does not import, those that Kubernetes adds for a service
// (ELECTION_SERVICE_HOST, ELECTION_PORT_80_TCP, …), those of this module's
// tests (ELECTION_TEST_…), and those that the command elect sets for the program that
// it runs (ELECTION_NAME, ELECTION_TERM, ELECTION_SOCKET) or reads itself (ELECTION_CONFIG).
//
// Without a file, or with an empty one, the environment alone is the configuration.
//
// # Secrets
//
// A text in a store's section can be kept out of the file and of the environment:
// with _file added to its key (mysql.dsn_file, ELECTION_MYSQL_DSN_FILE) it is the
// name of a file that holds it, as container platforms mount secrets. Line ends at
// its end are cut off. The file is read when the store is opened, and only if it is
// the chosen one. Paths are relative to the working directory.
//
// No error of this package, and nothing that a [Config] prints, shows a text of a
// store's section. The store's package may show what is no secret: a table's name.
//
// # Strictness
//
// Unknown keys, keys that appear twice, wrong types and impossible timings are
// errors. All that are found are returned at once, each with file and line or
// variable, key, value and what is allowed:
//
//	config: election.yaml:2: ttl: "10" has no unit; write a duration as 10s, 500ms or 1m30s
//	config: election.yaml:3: renew_every: renew_every (line 3) + call_timeout (default) + clock_margin (default) = 6s + …, must be less than ttl (line 2) = 9s
//	config: ELECTION_MYSQL_DNS: there is no such key; did you mean ELECTION_MYSQL_DSN?
//
// Sections of stores that are not chosen are checked too, if the program imports
// them. A file is at most 1 MiB of plain YAML: one document, no tags, no anchors, no
// aliases. JSON is YAML.
//
// # Keys
//
// Nothing here is hot: it is read once, and a change needs a restart. Timings, names
// and credentials may be changed by restarting one member after the other. What says
// where leases are kept (backend, and the schema, prefix, root, path or directory of
// a store) and what is to be equal on all members may not: stop all, then start
// them, or members of the old place and of the new elect a leader each. Hot are only
// the contents of files that a section can name: manual.file, which says who leads, is
// read anew at each call of the store, consul.token_file when the token is refused, and
// etcd.cert_file and etcd.key_file at each new connection. Keys of the sections are
// explained in each store's package.
//
//	key                 type           default             what it is, and its range
//	backend             a text         none                the store: one of the sections below
//	id                  a text         host:pid-xxxx       this candidate's name; up to 255 bytes; not shared by live processes
//	address             a text         empty               shown to who asks for the leader; up to 255 bytes
//	metadata            a text         empty               the same; up to 4 KiB
//	ttl                 a duration     10s                 time without a leader after a crash, about; within the store's limits
//	renew_every         a duration     ttl/3               how often a leader renews; renew_every + call_timeout + clock_margin < ttl
//	call_timeout        a duration     ttl/4               bound of each call of the store
//	clock_margin        a duration     ttl/6               how long before the ttl ends a leader stops; at least ttl/20 and what the store needs
//	failover_delay      a duration     0s                  nobody leads for so long after a failure; equal on all members
//	incumbent_grace     a duration     0s                  others wait so long for a failed leader's return; equal on all members
//	step_down_timeout   a duration     30s                 how long a leader's function may take to return; more than 0
//	observer            true or false  false               never campaign and never write
//	consul.address      a text         127.0.0.1:8500      the agent: host:port, http://…, https://… or unix:///path
//	consul.token        a text         none                ACL token
//	consul.token_file   a text         none                file with the token, read again when the token is refused
//	consul.ca_file      a text         the system's        PEM file: authorities to trust
//	consul.cert_file    a text         none                PEM file: a certificate of one's own
//	consul.key_file     a text         none                PEM file: its key
//	consul.server_name  a text         the address's host  the name in the agent's certificate
//	consul.datacenter   a text         the agent's         where keys and session live
//	consul.namespace    a text         the token's         the same; Consul Enterprise
//	consul.partition    a text         the agent's         the same; Consul Enterprise
//	consul.prefix       a text         election            what the keys begin with; 1 to 128 bytes, no slash at its ends
//	consul.checks       a list         none                health checks of the node that must pass for this process to lead
//	consul.service_checks  a list      none                the same, of services
//	consul.layout       a text         native              native, or firefly: elections shared with FireflySoft.LeaderElection
//	consul.failover_delay a duration     10s                 layout firefly: ReElectionSilencePeriod of the fleet; 1s to 1m, not less than ttl
//	consul.confirm_number  a whole number  3               layout firefly: LeaderOfflineConfirmNumber of the fleet; 1 to 255, or -1 for none
//	consul.confirm_interval  a duration  10s               layout firefly: LeaderOfflineConfirmInterval of the fleet; 1ms to 10m
//	consul.session_ttl  a duration     10s                 layout firefly: ttl of the session; 1s to 10m, not less than ttl and the servers' session_ttl_min
//	etcd.endpoints      a list         none                client URLs of the cluster's members
//	etcd.prefix         a text         election/           what the keys begin with; ends in /
//	etcd.username       a text         none                user; sent with https, unless the endpoints say http
//	etcd.password       a text         none                and password
//	etcd.ca_file        a text         the system's        PEM file: authorities to trust
//	etcd.cert_file      a text         none                PEM file: a certificate of one's own
//	etcd.key_file       a text         none                PEM file: its key
//	file.dir            a text         none                a directory on a local file system, for this user alone; an absolute path
//	file.max_ttl        a duration     1m0s                the greatest ttl; 50ms to 1h; equal on all members
//	file.poll           true or false  false               followers read now and then instead of waiting for the kernel
//	manual.leader       a text         none                the id that leads, or self: whoever runs with this configuration
//	manual.leaders      a map          none                others, by election
//	manual.file         a text         none                a JSON file that says the same; its content is hot
//	manual.dir          a text         none                keep leaderships in this directory, so that two never lead; as file.dir
//	manual.max_ttl      a duration     15s                 the greatest ttl; 50ms to 1h; equal on all members
//	migration.from      the name of a backend  none        the store that elections leave, by its name; see package backend/migration
//	migration.to        the name of a backend  none        the store that they move to
//	migration.from_name a text         the kind of from    what marks call it; 1 to 40 printable ASCII characters without spaces
//	migration.to_name   a text         the kind of to      the same for the other; needed where elections have been in another store of its kind
//	migration.stage     a text         none                from, both or to: how far this process is
//	migration.unsealed  true or false  false               lead at stage to though the old store was not sealed
//	mysql.dsn           a text         none                user:password@tcp(host:3306)/schema?tls=true
//	mysql.schema        a text         that of the DSN     the tables' schema
//	mysql.prefix        a text         election            what the tables' names begin with
//	mysql.notify_conns    a whole number 4                   how many leaders a follower listens to; less than 0: none
//	mysqltable.dsn      a text         none                as mysql.dsn
//	mysqltable.schema   a text         that of the DSN     the schema of all tables
//	mysqltable.table    a text         leader_election     the table of the other programs, which elections are shared with
//	mysqltable.layout   a text         none                last_active_time, last_seen_active or update_time: its column with the time
//	mysqltable.threshold  a duration   by the layout       after how long the other programs take over; bounds the ttl
//	mysqltable.patience  a duration    the threshold       the greatest of their thresholds, if they differ
//	mysqltable.period   a duration     by the layout       how often each of them looks, at least
//	mysqltable.zone     a text         UTC                 the time zone of their sessions, if it has daylight saving time
//	mysqltable.keys     a map          the names           keys of single elections in the table, by name
//	mysqltable.prefix   a text         election_shared     what the names of our own tables begin with
//	mysqltable.notify_conns  a whole number  4               as mysql.notify_conns
//	zookeeper.servers   a list         none                members of the ensemble: host or host:port
//	zookeeper.root      a text         /election           where everything of this module lives
//	zookeeper.layout    a text         latch               latch, selector (both Curator's) or node
//	zookeeper.path      a text         under the root      where an election's lock is; {election} stands for its name
//	zookeeper.paths     a map          none                paths of single elections, by name
//	zookeeper.data      a text         id                  what a lock node holds: id or address
//	zookeeper.last      a text         none                with layout node: a node that keeps who led last
//	zookeeper.user      a text         none                user of the digest scheme, which wants TLS
//	zookeeper.password  a text         none                and password
//	zookeeper.insecure_auth  true or false  false          send them without TLS all the same
//	zookeeper.acl       a list         the user alone      rights of nodes that are made: scheme:id:permissions
//	zookeeper.tls       true or false  false               talk to the secure port; implied by the next four
//	zookeeper.ca_file   a text         the system's        PEM file: authorities to trust
//	zookeeper.cert_file a text         none                PEM file: a certificate of one's own
//	zookeeper.key_file  a text         none                PEM file: its key
//	zookeeper.server_name  a text      the host dialled    the name in the servers' certificates
//	zookeeper.tick      a duration     2s                  the servers' tickTime, or more
//	zookeeper.max_session  a duration  20 ticks            the servers' maxSessionTimeout
//
// Programs can list the keys, with their variables: [Keys].
package config
