// Package all makes every backend of this module known by name, for programs
// that choose one at run time:
//
//	import _ "github.com/go-election/go-election/backend/all"
//
// It brings every store's client library along. A program that imports just one
// backend, in the same way, gets just that one's.
package all

import (
	_ "github.com/go-election/go-election/backend/consul"
	_ "github.com/go-election/go-election/backend/etcd"
	_ "github.com/go-election/go-election/backend/file"
	_ "github.com/go-election/go-election/backend/manual"
	_ "github.com/go-election/go-election/backend/memory"
	_ "github.com/go-election/go-election/backend/migration"
	_ "github.com/go-election/go-election/backend/mysql"
	_ "github.com/go-election/go-election/backend/mysqltable"
	_ "github.com/go-election/go-election/backend/zookeeper"
)
