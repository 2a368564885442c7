package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/go-election/go-election/lab/testbed"
)

// rights returns what docs/kubernetes.md says for Leases, with its binding, and for pods.
func rights(t *testing.T, namespace string) (leases, pods string) {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/kubernetes.md")
	testbed.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	return strings.ReplaceAll(blocks[1][1], "namespace: billing", "namespace: "+namespace), blocks[2][1]
}

// The command finds a missing right, prints what grants it, and then leads and shows who leads.
func TestTheCommandElectsOnKubernetes(t *testing.T) {
	k := testbed.SharedKubernetes(t)
	namespace := k.Namespace(t)
	_, token := k.ServiceAccount(t, namespace, "app")
	binary := filepath.Join(t.TempDir(), "elect")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	command := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), binary, args...)
		c.Dir = t.TempDir()
		c.Env = append(os.Environ(), "ELECTION_BACKEND=kubernetes", "ELECTION_TTL=4s", "ELECTION_KUBERNETES_NAMESPACE="+namespace,
			"ELECTION_KUBERNETES_KUBECONFIG="+k.TokenKubeconfig(t, token))
		return c
	}
	elect := func(args ...string) (string, int) {
		c := command(args...)
		out, _ := c.CombinedOutput()
		if strings.Contains(string(out), token) {
			t.Errorf("elect %q shows the token", args)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	if out, code := elect("doctor"); code != 1 || !strings.Contains(out, "kubectl create role") {
		t.Errorf("without rights, doctor ends with %d:\n%s\nwant 1, and what an administrator must do", code, out)
	}
	leases, _ := rights(t, namespace)
	k.Apply(t, namespace, leases)
	testbed.Eventually(t, time.Minute, "the Role is in effect", func() error {
		if out, code := elect("doctor", "--write"); code != 0 || !strings.Contains(out, "elected in term") {
			return fmt.Errorf("doctor --write ends with %d:\n%s", code, out)
		}
		return nil
	})
	run := command("run", "job", "--id", "host-1", "--", "sleep", "60")
	testbed.NoError(t, run.Start())
	testbed.Eventually(t, time.Minute, "the command's leader is shown", func() error {
		if out, code := elect("status", "job"); code != 0 || !strings.Contains(out, "host-1") {
			return fmt.Errorf("status ends with %d:\n%s", code, out)
		}
		return nil
	})
	run.Process.Signal(os.Interrupt)
	run.Wait()
	if out, code := elect("status", "job"); code != 1 {
		t.Errorf("after its end, status ends with %d:\n%s\nwant 1: nobody leads", code, out)
	}
}

// In a pod nothing is configured: server, namespace, account and token come from where the kubelet puts them. The label is
// on the pod of whoever leads.
func TestThePodOfTheCommandHasTheLabel(t *testing.T) {
	k := testbed.SharedKubernetes(t)
	namespace := k.Namespace(t)
	_, token := k.ServiceAccount(t, namespace, "app")
	leases, pods := rights(t, namespace)
	_, binding, _ := strings.Cut(leases, "---\n")
	k.Apply(t, namespace, leases, pods, strings.ReplaceAll(binding, "name: election", "name: election-pod-label"),
		"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: app, image: none}]}}",
		"{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: app, image: none}]}}")
	if os.Getuid() != 0 {
		t.Skip("it mounts what a pod has, which needs root")
	}
	config, err := clientcmd.BuildConfigFromFlags("", k.TokenKubeconfig(t, token))
	testbed.NoError(t, err)
	server, err := url.Parse(config.Host)
	testbed.NoError(t, err)
	account := t.TempDir()
	for name, text := range map[string]string{"token": token, "ca.crt": string(config.CAData), "namespace": namespace} {
		testbed.NoError(t, os.WriteFile(filepath.Join(account, name), []byte(text), 0o600))
	}
	binary := filepath.Join(t.TempDir(), "elect")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(pod string) *exec.Cmd {
		inPod := "mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io && cp -r " + account + " /run/secrets/kubernetes.io/serviceaccount && exec \"$@\""
		c := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", inPod, "sh", binary, "run", "orders", "--id", pod, "--pod-label", "leads", "--", "sleep", "600")
		c.Dir = t.TempDir()
		c.Env = append(os.Environ(), "ELECTION_BACKEND=kubernetes", "ELECTION_TTL=4s", "KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port(), "POD_NAME="+pod)
		testbed.NoError(t, c.Start())
		return c
	}
	labelled := func(want string) {
		t.Helper()
		testbed.Eventually(t, time.Minute, fmt.Sprintf("the label is on %q", want), func() error {
			var list struct {
				Items []struct{ Metadata struct{ Name string } }
			}
			k.Request(t, http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods?labelSelector=leads%3Dtrue", nil, &list)
			got := ""
			for _, p := range list.Items {
				got += p.Metadata.Name
			}
			if got != want {
				return fmt.Errorf("it is on %q", got)
			}
			return nil
		})
	}

	a := run("a")
	labelled("a")
	var lease struct {
		Spec struct{ HolderIdentity string }
	}
	k.Request(t, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/"+namespace+"/leases/orders", nil, &lease)
	if lease.Spec.HolderIdentity != "a" {
		t.Errorf("the Lease in the pod's namespace is held by %q; want a", lease.Spec.HolderIdentity)
	}
	b := run("b")
	a.Process.Signal(os.Interrupt)
	a.Wait()
	labelled("b")
	b.Process.Signal(os.Interrupt)
	b.Wait()
	labelled("")
}
