// Package monitoring has no code: alerts.yml has rules for Prometheus, dashboard.json is a dashboard for Grafana 10 or
// later. Both use the metrics of package electionprom; docs/metrics.md explains them. The tests check that every query can
// be parsed and names existing metrics and labels, and that each alert fires, and does not fire, on the series in
// alerts_test.yml.
package monitoring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionprom"
	"github.com/go-election/go-election/lab/testbed"
)

// promtool runs promtool, and fails the test if promtool reports an error. If promtool
// is not installed the test is skipped; in CI it fails.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		testbed.Full(t, "needs promtool")
		const cure = "run \"make deps\", or install the Debian package prometheus"
		if ci := os.Getenv("CI"); ci != "" && ci != "false" {
			t.Fatalf("monitoring: MISSING: %v: %s", err, cure)
		}
		t.Skipf("monitoring: MISSING: %v: %s", err, cure)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlertsAreValid(t *testing.T) { promtool(t, "check", "rules", "alerts.yml") }

func TestAlertsFireWhenTheyShould(t *testing.T) { promtool(t, "test", "rules", "alerts_test.yml") }

type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Alert  string `yaml:"alert,omitempty"`
	Record string `yaml:"record,omitempty"`
	Expr   string `yaml:"expr"`
}

func alerts(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	testbed.NoError(t, err)
	var f ruleFile
	testbed.NoError(t, yaml.Unmarshal(text, &f))
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// An alert that fires in no test may never fire.
func TestEachAlertHasATest(t *testing.T) {
	tests, err := os.ReadFile("alerts_test.yml")
	testbed.NoError(t, err)
	for _, a := range alerts(t) {
		if !regexp.MustCompile(`alertname: ` + a.Alert + `\n\s+exp_alerts:`).Match(tests) {
			t.Errorf("%s fires in no test", a.Alert)
		}
	}
}

// queries returns the dashboard's queries by panel, with Grafana's variables replaced.
func queries(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	testbed.NoError(t, err)
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ RefID, Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	testbed.NoError(t, json.Unmarshal(text, &d))
	all, variables := map[string]string{}, strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$election", ".*")
	seen := map[int]bool{}
	for _, p := range d.Panels {
		if seen[p.ID] || len(p.Targets) == 0 {
			t.Errorf("panel %q has no query, or the id %d of another panel", p.Title, p.ID)
		}
		seen[p.ID] = true
		for _, q := range p.Targets {
			all[fmt.Sprintf("panel %q, query %s", p.Title, q.RefID)] = variables.Replace(q.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if q, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
			all["variable "+v.Name] = variables.Replace(q[:strings.LastIndex(q, ",")])
		}
	}
	return all
}

func TestQueriesOfTheDashboardAreValid(t *testing.T) {
	f := ruleFile{Groups: []ruleGroup{{Name: "dashboard"}}}
	for where, q := range queries(t) {
		if strings.Contains(q, "$") {
			t.Errorf("%s has an undefined variable: %s", where, q)
		}
		f.Groups[0].Rules = append(f.Groups[0].Rules, rule{Record: "q:" + regexp.MustCompile(`\W`).ReplaceAllString(where, "_"), Expr: q})
	}
	text, err := yaml.Marshal(f)
	testbed.NoError(t, err)
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	testbed.NoError(t, os.WriteFile(path, text, 0o600))
	promtool(t, "check", "rules", path)
}

// exported returns the labels of each metric that a collector exports.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	m, err := election.New(memory.New().Backend(), election.Options{})
	testbed.NoError(t, err)
	defer m.Close(context.Background())
	if _, err := m.Join("jobs"); err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(electionprom.New(m, electionprom.Options{}))
	families, err := r.Gather()
	testbed.NoError(t, err)
	all := map[string][]string{}
	for _, f := range families {
		labels := []string{"job", "instance"} // every target has these
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		all[f.GetName()] = labels
		if f.Metric[0].Histogram != nil {
			delete(all, f.GetName())
			all[f.GetName()+"_count"], all[f.GetName()+"_sum"] = labels, labels
			all[f.GetName()+"_bucket"] = append(slices.Clone(labels), "le")
		}
	}
	return all
}

var (
	metric   = regexp.MustCompile(`\b(election_\w+)(?:\{([^}]*)\})?`)
	selector = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	quoted   = regexp.MustCompile(`"[^"]*"`)
)

func TestQueriesNameMetricsAndLabelsThatExist(t *testing.T) {
	all, used := exported(t), map[string]bool{}
	qs := queries(t)
	for _, a := range alerts(t) {
		qs["alert "+a.Alert] = a.Expr
	}
	for where, q := range qs {
		found := metric.FindAllStringSubmatch(q, -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric: %s", where, q)
		}
		for _, m := range found {
			labels, ok := all[m[1]]
			if !ok {
				t.Errorf("%s names %s, which is not exported", where, m[1])
			}
			used[m[1]] = true
			for _, s := range selector.FindAllStringSubmatch(quoted.ReplaceAllString(m[2], `""`), -1) {
				if !slices.Contains(labels, s[1]) {
					t.Errorf("%s selects %s by %s, a label that it does not have", where, m[1], s[1])
				}
			}
		}
	}
	for _, name := range []string{"election_leading", "election_term", "election_errors_total", "election_changes_total"} {
		if !used[name] {
			t.Errorf("neither the dashboard nor an alert uses %s", name)
		}
	}
}

// A manager exports every series that a rule counts before the first event: increase()
// misses an error that starts its series.
func TestCountedSeriesExistFromTheStart(t *testing.T) {
	m, err := election.New(memory.New().Backend(), election.Options{})
	testbed.NoError(t, err)
	defer m.Close(context.Background())
	there, notices := map[string]bool{}, map[election.Change]bool{}
	for _, c := range m.Stats().Changes {
		if c.Count == 0 && c.Own && c.Kind == election.Vacant {
			there[string(c.Reason)] = true
		}
		if c.Count == 0 {
			notices[c] = true
		}
	}
	// ElectionNotice selects only by the kind, so all series of that kind must exist.
	for _, reason := range []election.Reason{election.ReasonSameID, election.ReasonWentBack, election.ReasonStuck, election.ReasonDenied, election.ReasonInvalid} {
		for _, own := range []bool{false, true} {
			if !notices[election.Change{Kind: election.Notice, Reason: reason, Own: own}] {
				t.Errorf("a notice %q, own %v, is not exported before the first event", reason, own)
			}
		}
	}
	for _, a := range alerts(t) {
		for _, m := range regexp.MustCompile(`reason=~"([^"]*)"`).FindAllStringSubmatch(a.Expr, -1) {
			for reason := range strings.SplitSeq(m[1], "|") {
				if !there[reason] {
					t.Errorf("%s counts %q, which is not exported before the first event", a.Alert, reason)
				}
			}
		}
	}
}
