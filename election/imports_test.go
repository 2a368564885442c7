package election_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/go-election/go-election"

// clients are the modules that each backend may add to a program: its store's client and that client's dependencies.
var clients = map[string][]string{
	"memory":     nil,
	"file":       {"github.com/fsnotify/fsnotify", "golang.org/x/sys"},
	"manual":     {"github.com/fsnotify/fsnotify", "golang.org/x/sys"},
	"clean":      nil,
	"page":       nil,
	"single":     nil,
	"lease":      nil,
	"beside":     nil,
	"migration":  nil,
	"mysql":      {"github.com/go-sql-driver/mysql", "filippo.io/edwards25519"},
	"mysqltable": {"github.com/go-sql-driver/mysql", "filippo.io/edwards25519"},
	"postgres": {"github.com/jackc/pgx/v5", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/puddle/v2",
		"golang.org/x/sync", "golang.org/x/text"},
	"redis":     {"github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "github.com/dgryski/go-rendezvous"},
	"curator":   {"github.com/go-zookeeper/zk"},
	"zookeeper": {"github.com/go-zookeeper/zk"},
	"consul":    consul,
	"etcd": {"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/client/pkg/v3", "github.com/coreos/",
		"github.com/golang/protobuf", "github.com/grpc-ecosystem/grpc-gateway/v2", "go.uber.org/multierr", "go.uber.org/zap",
		"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text", "google.golang.org/"},
	"s3":       {"github.com/aws/aws-sdk-go-v2/service/s3", "github.com/aws/"},
	"register": nil,
}

var consul = []string{
	"github.com/hashicorp/consul/api", "github.com/hashicorp/", "github.com/armon/go-metrics", "github.com/fatih/color",
	"github.com/go-viper/mapstructure/v2", "github.com/mattn/", "github.com/mitchellh/go-homedir", "golang.org/x/exp", "golang.org/x/sys",
}

// list is what "go list" says of this module, in words.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	return strings.Fields(string(out))
}

// linked returns the modules in a program of these packages, without this module.
func linked(t *testing.T, packages ...string) []string {
	t.Helper()
	modules := list(t, append([]string{"-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}, packages...)...)
	slices.Sort(modules)
	return slices.DeleteFunc(slices.Compact(modules), func(m string) bool { return m == module })
}

// check fails if a module is linked that is not allowed. An entry of allowed is a module, or a prefix that ends in a slash.
func check(t *testing.T, what string, modules, allowed []string) {
	t.Helper()
	for _, m := range modules {
		if !slices.ContainsFunc(allowed, func(a string) bool { return m == a || strings.HasSuffix(a, "/") && strings.HasPrefix(m, a) }) {
			t.Errorf("%s links %s", what, m)
		}
	}
}

func TestTheCoreImportsNoThirdParty(t *testing.T) {
	check(t, "the core", linked(t, "./election", "./backend", "./conformance/..."), nil)
	check(t, "config", linked(t, "./config"), []string{"go.yaml.in/yaml/v3"})
}

// A program with one backend links that backend's client and no other. Nor do the core and config add one.
func TestAProgramLinksOnlyItsBackendsClient(t *testing.T) {
	for _, path := range list(t, "./backend/...") {
		name, ok := strings.CutPrefix(path, module+"/backend/")
		if !ok || name == "all" {
			continue
		}
		own, known := clients[name]
		if !known {
			t.Errorf("this test does not know what backend/%s may import", name)
			continue
		}
		modules := linked(t, "./backend/"+name)
		check(t, "backend/"+name, modules, own)
		if len(own) > 0 && !slices.Contains(modules, own[0]) {
			t.Errorf("backend/%s does not link %s", name, own[0])
		}
	}
}

// A backend depends on the contract (package backend), not on the manager.
func TestABackendDoesNotImportTheCore(t *testing.T) {
	if slices.Contains(list(t, "-deps", "./backend/..."), module+"/election") {
		t.Error("a backend imports the manager")
	}
}

// The go line promises that this module works with Go 1.26.
func TestTheGoLineIsKept(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^go 1\.26\.0$`).Match(mod) {
		t.Errorf("go.mod does not say go 1.26.0:\n%s", mod)
	}
	if regexp.MustCompile(`(?m)^toolchain`).Match(mod) {
		t.Error("go.mod asks for a toolchain")
	}
}
