package election_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/go-election/go-election"

// A program that chooses one backend gets that backend's client and no more.
func TestTheCoreImportsNothingOfThirdParties(t *testing.T) {
	for pkg, allowed := range map[string][]string{
		"./election":       nil,
		"./backend":        nil,
		"./backend/memory": nil,
		"./conformance":    nil,
		"./backend/mysql":  {"github.com/go-sql-driver/mysql", "filippo.io/edwards25519"},
	} {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg)
		cmd.Dir = ".."
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", pkg, err)
		}
	imports:
		for path := range strings.FieldsSeq(string(out)) {
			if path == module || strings.HasPrefix(path, module+"/") {
				continue
			}
			for _, prefix := range allowed {
				if path == prefix || strings.HasPrefix(path, prefix+"/") {
					continue imports
				}
			}
			t.Errorf("%s imports %s", pkg, path)
		}
	}
}

// A backend knows the contract, not the manager.
func TestABackendDoesNotImportTheCore(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./backend/...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if path == module+"/election" {
			t.Errorf("a backend imports %s", path)
		}
	}
}

// The go line is a promise to users: whoever has Go 1.26 can use this module.
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
