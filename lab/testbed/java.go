package testbed

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// JavaOptions describe a member. All are required.
type JavaOptions struct {
	// Kind selects the election:
	//   - "latch" and "selector" are those of Apache Curator.
	//   - "node": the member that creates a node at Path leads. The others wait until the
	//     node is deleted.
	//   - "cached": the same, but the leader is the member whose id the node holds,
	//     regardless of who wrote it.
	Kind    string
	Server  string
	Path    string        // of the queue or the node; the parent of a node must exist
	ID      string        // the data of its node
	Session time.Duration // timeout of its session
}

//go:embed java/Member.java
var memberSource []byte

// curatorMember is that program.
var curatorMember = JavaProgram(memberSource, "libcurator-recipes-java", "curator",
	"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "failureaccess", "slf4j-api", "slf4j-nop",
	"netty-common", "netty-handler", "netty-transport", "netty-buffer", "netty-codec", "netty-resolver")

// JavaProgram returns a function that compiles the class Member of a source at its first call, and returns the class
// path. Jars whose names begin with required must be there; a Debian package has them.
func JavaProgram(source []byte, debian, required string, jars ...string) func(t testing.TB) (path string) {
	once := sync.OnceValues(func() (string, error) {
		return attempt(func() string { return compileJava(source, debian, required, jars) })
	})
	return func(t testing.TB) string {
		t.Helper()
		path, err := once()
		if err != nil {
			unavailable(t, err)
		}
		return path
	}
}

func compileJava(source []byte, debian, required string, jars []string) string {
	const shared = "/usr/share/java/"
	var path []string
	for _, jar := range jars {
		if _, err := os.Stat(shared + jar + ".jar"); err == nil {
			path = append(path, shared+jar+".jar")
		} else if strings.HasPrefix(jar, required) {
			check(&missing{ZooKeeper, jar, "Debian: " + debian})
		}
	}
	javac := installed(ZooKeeper, "javac", "javac", "Debian: default-jdk-headless")
	dir := newDir()
	file := filepath.Join(dir, "Member.java")
	check(os.WriteFile(file, source, 0o644))
	all := strings.Join(append(path, dir), ":")
	if out, err := exec.Command(javac, "-J-Xmx256m", "-J-XX:+UseSerialGC", "-cp", all, "-d", dir, file).CombinedOutput(); err != nil {
		check(fmt.Errorf("javac: %w: %s", err, out))
	}
	return all
}

// StartJava starts the class Member of a class path as a member, which ends with the test.
func StartJava(t testing.TB, id, path string, args ...string) *Member {
	t.Helper()
	cmd := exec.Command("java", append([]string{"-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", path, "Member"}, args...)...)
	return StartMember(t, id, cmd)
}

// StartJavaMember starts a member in Java, which ends with the test.
func StartJavaMember(t testing.TB, o JavaOptions) *Member {
	t.Helper()
	return StartJava(t, o.ID, curatorMember(t), o.Kind, o.Server, o.Path, o.ID, strconv.FormatInt(o.Session.Milliseconds(), 10))
}
