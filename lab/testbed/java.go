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

// javaClasses compiles the program once and returns its class path.
var javaClasses = sync.OnceValues(func() (string, error) { return attempt(compileJava) })

func compileJava() string {
	const jars = "/usr/share/java/"
	var path []string
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "failureaccess", "slf4j-api", "slf4j-nop",
		"netty-common", "netty-handler", "netty-transport", "netty-buffer", "netty-codec", "netty-resolver"} {
		if _, err := os.Stat(jars + jar + ".jar"); err == nil {
			path = append(path, jars+jar+".jar")
		} else if strings.HasPrefix(jar, "curator") {
			check(&missing{ZooKeeper, jar, "Debian: libcurator-recipes-java"})
		}
	}
	javac := installed(ZooKeeper, "javac", "javac", "Debian: default-jdk-headless")
	dir := newDir()
	source := filepath.Join(dir, "Member.java")
	check(os.WriteFile(source, memberSource, 0o644))
	all := strings.Join(append(path, dir), ":")
	if out, err := exec.Command(javac, "-J-Xmx256m", "-J-XX:+UseSerialGC", "-cp", all, "-d", dir, source).CombinedOutput(); err != nil {
		check(fmt.Errorf("javac: %w: %s", err, out))
	}
	return all
}

// StartJavaMember starts a member in Java, which ends with the test.
func StartJavaMember(t testing.TB, o JavaOptions) *Member {
	t.Helper()
	path, err := javaClasses()
	if err != nil {
		unavailable(t, err)
	}
	cmd := exec.Command("java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", path,
		"Member", o.Kind, o.Server, o.Path, o.ID, strconv.FormatInt(o.Session.Milliseconds(), 10))
	return StartMember(t, o.ID, cmd)
}
