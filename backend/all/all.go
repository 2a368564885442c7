// Package all registers every backend of this module by name, for programs that choose one at run time:
//
//	import _ "github.com/go-election/go-election/backend/all"
//
// It links the client library of every store. A program that imports a single backend
// in the same way links only that one's library.
package all

import (
	_ "github.com/go-election/go-election/backend/consul"
	_ "github.com/go-election/go-election/backend/curator"
	_ "github.com/go-election/go-election/backend/etcd"
	_ "github.com/go-election/go-election/backend/file"
	_ "github.com/go-election/go-election/backend/manual"
	_ "github.com/go-election/go-election/backend/memory"
	_ "github.com/go-election/go-election/backend/migration"
	_ "github.com/go-election/go-election/backend/mysql"
	_ "github.com/go-election/go-election/backend/mysqltable"
	_ "github.com/go-election/go-election/backend/postgres"
	_ "github.com/go-election/go-election/backend/redis"
	_ "github.com/go-election/go-election/backend/s3"
	_ "github.com/go-election/go-election/backend/zookeeper"
)
