package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// StartJava starts the class Member of a program with these arguments, until the end of the test.
type StartJava = func(t testing.TB, id string, args ...string) *Member

// JavaProgram returns a function that starts the class Member of a source as a member. Its first call
// compiles the source. Jars whose names begin with required must be there; a Debian package has them.
func JavaProgram(source []byte, debian, required string, jars ...string) StartJava {
	compiled := sync.OnceValues(func() (string, error) {
		return attempt(func() string { return compileJava(source, debian, required, jars) })
	})
	return func(t testing.TB, id string, args ...string) *Member {
		t.Helper()
		path, err := compiled()
		if err != nil {
			unavailable(t, err)
		}
		java := []string{"-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, "Member"}
		return StartMember(t, id, exec.Command("java", append(java, args...)...))
	}
}

// compileJava returns the class path.
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
	cmd := exec.Command(javac, "-J-Xmx256m", "-J-XX:+UseSerialGC", "-cp", all, "-d", dir, file)
	if out, err := cmd.CombinedOutput(); err != nil {
		check(fmt.Errorf("javac: %w: %s", err, out))
	}
	return all
}
