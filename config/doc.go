// Package config starts a manager from one YAML file and the environment.
//
//	import _ "github.com/go-election/go-election/backend/all"
//
//	m, err := config.Open(ctx, "election.yaml")
//
// The file names the store and has a section for each store. It may have sections for several stores; the key
// backend selects one. So one word, or one variable, changes the store:
//
//	backend: mysql                          # ELECTION_BACKEND=etcd
//	ttl: 10s
//	mysql:
//	  dsn_file: /run/secrets/mysql-dsn      # or dsn: app:secret@tcp(db:3306)/app
//	etcd:
//	  endpoints: [http://etcd1:2379]
//
// A program knows the stores that it imports: backend/all for every store, or single
// backends, so that only their clients are linked.
//
// [Load] reads and checks. [Config.Validate] also asks the store's package and compares the timings with the
// store's limits. [Config.Open] starts the manager. None of them needs the store to be up. A program sets
// what a file cannot hold (a logger, a health check) on [Config].Election between Load and Open.
//
// # Environment and secrets
//
// Every key has an environment variable, which overrides the file: ELECTION_TTL for ttl,
// ELECTION_MYSQL_DSN for mysql.dsn. A list is written as a,b and a map as a=b,c=d. An empty
// variable counts as not set; line breaks at the end are cut off. Without a file, the environment is the
// whole configuration. Nothing replaces ${NAME} in a value: it is refused, as quotes around a variable are.
//
// Every string in a store's section can be kept in a file of its own, which the key
// with _file added names: mysql.dsn_file, ELECTION_MYSQL_DSN_FILE. No error of this
// package, and nothing that a [Config] prints, shows a string of a store's section.
// The store's package may show values that are not secret, such as a table's name.
//
// # Mistakes
//
// Unknown keys, variables that begin with ELECTION_ and belong to no key (also empty ones),
// duplicate keys, wrong types and impossible timings are errors. Load returns up to 20 at once:
//
//	config: election.yaml:2: ttl: "10" has no unit; write a duration as 10s, 500ms or 1m30s
//	config: election.yaml:2: ttl is 9s, must be more than 9.75s: renew_every + call_timeout + clock_margin = …
//	config: ELECTION_MYSQL_DNS: there is no such key; …
//
// # Limits
//
// The configuration is read once; a change needs a restart. A file is plain YAML, without
// tags, anchors and aliases.
//
// All keys, and which variables are exempt: docs/configuration.md. [Keys] lists those of a program.
package config
