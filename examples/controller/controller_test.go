package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/lab/testbed"
)

const (
	ttl      = 5 * time.Second
	patience = 3 * time.Minute // bounds every wait, on a busy machine

	replica = "CONTROLLER_TEST_REPLICA" // set in a process that the test starts
)

func TestMain(m *testing.M) {
	if os.Getenv(replica) != "" {
		main()
		return
	}
	m.Run()
}

// Two replicas on a real API server elect through a real MariaDB. The one that leads greets. After kill -9 the other does;
// after SIGTERM the next one does, and at once. A leader that was stopped for too long ends by itself.
func TestTheReplicaThatLeadsReconciles(t *testing.T) {
	testbed.Full(t, "kills processes")
	k := testbed.SharedKubernetes(t)
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""))
	c := cluster{t: t, server: k, namespace: k.Namespace(t), replicas: map[string]*exec.Cmd{}, environ: []string{
		replica + "=1", "KUBECONFIG=" + k.AdminKubeconfig(t), "ELECTION_BACKEND=mysql",
		"ELECTION_MYSQL_DSN=" + d.User.FormatDSN(), "ELECTION_TTL=" + ttl.String(),
	}}
	c.start("a")
	c.start("b")
	first := c.greeted("world")

	c.end(first, syscall.SIGKILL)
	killed := time.Now()
	second := c.greeted("moon")
	if second == first {
		t.Fatalf("%s greets after it was killed", first)
	}
	t.Logf("%s was killed, %s greets %.1f TTL later", first, second, time.Since(killed).Seconds()/ttl.Seconds())

	c.start("c")
	c.greeted("sun") // c has had some time to start
	c.end(second, syscall.SIGTERM)
	asked := time.Now()
	if third := c.greeted("stars"); third != "c" {
		t.Errorf("%s greets, want c", third)
	}
	t.Logf("%s was asked to end, c greets %v later", second, time.Since(asked))

	c.start("d")
	stopped := c.replicas["c"].Process
	stopped.Signal(syscall.SIGSTOP)
	if fourth := c.greeted("clouds"); fourth != "d" {
		t.Errorf("%s greets while c is stopped", fourth)
	}
	stopped.Signal(syscall.SIGCONT)
	if err := c.replicas["c"].Wait(); err == nil {
		t.Error("c has lost its leadership and reports success")
	}
}

type cluster struct {
	t         *testing.T
	server    *testbed.KubernetesServer
	namespace string
	environ   []string
	replicas  map[string]*exec.Cmd
}

func (c cluster) start(id string) {
	c.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), c.environ...), "ELECTION_ID="+id)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	testbed.NoError(c.t, cmd.Start())
	c.replicas[id] = cmd
	c.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

// end ends a replica. One that is asked to end reports success.
func (c cluster) end(id string, s syscall.Signal) {
	c.t.Helper()
	cmd := c.replicas[id]
	testbed.NoError(c.t, cmd.Process.Signal(s))
	if err := cmd.Wait(); err != nil && s != syscall.SIGKILL {
		c.t.Errorf("%s was asked to end: %v", id, err)
	}
}

// greeted creates a ConfigMap with this name in it, waits for its greeting, and returns which replica wrote it.
func (c cluster) greeted(name string) (by string) {
	c.t.Helper()
	all := "/api/v1/namespaces/" + c.namespace + "/configmaps"
	c.server.Request(c.t, "POST", all, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name}}, nil)
	testbed.Eventually(c.t, patience, "a greeting of "+name, func() error {
		var m corev1.ConfigMap
		if err := c.server.Try(c.t.Context(), "GET", all+"/"+name, nil, &m); err != nil {
			return err
		}
		if by = m.Data["by"]; m.Data["greeting"] != "Hello, "+name+"!" {
			return fmt.Errorf("its data are %q", m.Data)
		}
		return nil
	})
	return by
}
