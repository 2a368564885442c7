package electionprom_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionprom"
	"github.com/go-election/go-election/electiontest"
	"github.com/go-election/go-election/lab/testbed"
)

// joins joins m to an election, as a candidate or as a follower.
func joins(t testing.TB, m *election.Manager, name string, candidate bool) {
	t.Helper()
	e, err := m.Join(name)
	if err == nil && candidate {
		err = e.Lead(nil)
	}
	testbed.NoError(t, err)
}

func expect(t *testing.T, c prometheus.Collector, want string, names ...string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		lines = append(lines, strings.TrimSpace(line))
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(strings.Join(lines, "\n")+"\n"), names...); err != nil {
		t.Error(err)
	}
}

func TestMetricsShowWhatAProcessLeadsAndFollows(t *testing.T) {
	electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
		a, b := g.Start("a").Manager, g.Start("b").Manager
		joins(t, a, "mine", true)
		joins(t, a, "nobody's", false)
		joins(t, b, "theirs", true)
		joins(t, a, "theirs", false)
		time.Sleep(time.Second)
		c := electionprom.New(a, electionprom.Options{})
		expect(t, c, `
			# HELP election_candidate Whether this process leads, or campaigns, healthy and not paused.
			# TYPE election_candidate gauge
			election_candidate{election="mine"} 1
			election_candidate{election="nobody's"} 0
			election_candidate{election="theirs"} 0
			# HELP election_info The backend and id of this candidate.
			# TYPE election_info gauge
			election_info{backend="memory",candidate="a"} 1
			# HELP election_joined Joined elections by the state that this process knows.
			# TYPE election_joined gauge
			election_joined{state="following"} 1
			election_joined{state="leading"} 1
			election_joined{state="unknown"} 0
			election_joined{state="vacant"} 1
			# HELP election_leading Whether this process leads the election now.
			# TYPE election_leading gauge
			election_leading{election="mine"} 1
			election_leading{election="nobody's"} 0
			election_leading{election="theirs"} 0
			# HELP election_omitted Joined elections that have no metrics of their own, because there are too many.
			# TYPE election_omitted gauge
			election_omitted 0
			# HELP election_ttl_seconds TTL of this manager's leases.
			# TYPE election_ttl_seconds gauge
			election_ttl_seconds 10
		`, "election_candidate", "election_info", "election_joined", "election_leading", "election_omitted", "election_ttl_seconds")

		_, term, _ := a.Election("theirs").Leader()
		expect(t, electionprom.New(b, electionprom.Options{}), fmt.Sprintf(`
			# HELP election_term The last term that this process knows.
			# TYPE election_term gauge
			election_term{election="theirs"} %g
		`, float64(term)), "election_term")
		if uint64(float64(term)) != term {
			t.Errorf("term %d is not exact as a float64", term)
		}
	})
}

func TestACandidateThatIsPausedIsNoStandby(t *testing.T) {
	electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
		m := g.Start("a").Manager
		joins(t, m, "jobs", true)
		m.Pause()
		time.Sleep(time.Second)
		expect(t, electionprom.New(m, electionprom.Options{Namespace: "app"}), `
			# HELP app_election_candidate Whether this process leads, or campaigns, healthy and not paused.
			# TYPE app_election_candidate gauge
			app_election_candidate{election="jobs"} 0
		`, "app_election_candidate")
	})
}

func TestChangesErrorsAndRenewalsAreCounted(t *testing.T) {
	electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
		m := g.Start("a").Manager
		joins(t, m, "jobs", true)
		time.Sleep(time.Minute)
		g.Fail(backend.ErrDenied)
		time.Sleep(15 * time.Second) // a TTL and more
		c := electionprom.New(m, electionprom.Options{})
		r := gather(t, c)
		for key, want := range map[string]float64{
			"election_changes_total kind=elected own=true reason=elected":       1,
			"election_changes_total kind=vacant own=true reason=store denied":   1,
			"election_changes_total kind=vacant own=true reason=resigned":       0,
			"election_changes_total kind=unknown own=false reason=store denied": 1,
			"election_leading election=jobs":                                    0,
		} {
			if n, ok := r[key]; n != want || !ok {
				t.Errorf("%s is %v, want %v", key, n, want)
			}
		}
		if r["election_errors_total call=renew class=denied"] == 0 || r["election_errors_total call=renew class=unavailable"] != 0 {
			t.Errorf("denied renewals are counted as %v", r)
		}
		if n := r["election_renewal_remaining_ratio"]; n < 17 || n > 19 {
			t.Errorf("%v renewals in a minute, want about 18: one in 3.3 s", n)
		}
		if n := r["election_calls_seconds call=renew"]; n < r["election_renewal_remaining_ratio"] {
			t.Errorf("%v calls of renew, fewer than confirmed renewals", n)
		}
		if _, ok := r["election_calls_seconds call=listen"]; ok {
			t.Error("the durations of calls include those of Listen")
		}
	})
}

// gather returns the values, and of histograms the counts, by name and labels.
func gather(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	testbed.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			key := f.GetName()
			for _, l := range m.Label {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			all[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestTooManyElectionsHaveOnlyTotals(t *testing.T) {
	electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
		m := g.Start("a").Manager
		for i := range 11 {
			joins(t, m, fmt.Sprint(i), true)
		}
		time.Sleep(time.Second)
		for _, x := range []struct{ most, omitted int }{{10, 11}, {11, 0}, {-1, 11}, {0, 0}} {
			r := gather(t, electionprom.New(m, electionprom.Options{Most: x.most}))
			if r["election_omitted"] != float64(x.omitted) || r["election_joined state=leading"] != 11 {
				t.Errorf("with Most %d, %v of %v elections are omitted, want %d of 11", x.most, r["election_omitted"], r["election_joined state=leading"], x.omitted)
			}
			n := testutil.CollectAndCount(electionprom.New(m, electionprom.Options{Most: x.most}), "election_leading", "election_term")
			if n != 2*(11-x.omitted) {
				t.Errorf("with Most %d, %d series of elections, want %d", x.most, n, 2*(11-x.omitted))
			}
		}
	})
}

// Names of elections may be any printable text. Text of other candidates is never a label.
func TestLabelsHaveNoForeignText(t *testing.T) {
	electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
		hostile := `"} 1` + "\u00e9" + `\`
		other, m := g.Start("secret-of-others").Manager, g.Start(hostile).Manager
		joins(t, other, hostile, true)
		joins(t, m, hostile, true)
		time.Sleep(time.Second)
		for key := range gather(t, electionprom.New(m, electionprom.Options{})) {
			if strings.Contains(key, "secret-of-others") {
				t.Errorf("text of another candidate is a label: %s", key)
			}
		}
		problems, err := testutil.CollectAndLint(electionprom.New(m, electionprom.Options{}))
		testbed.NoError(t, err)
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	})
}

func TestAClosedManagerCanBeCollected(t *testing.T) {
	electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
		m := g.Start("a").Manager
		joins(t, m, "jobs", false)
		testbed.NoError(t, m.Close(t.Context()))
		r := gather(t, electionprom.New(m, electionprom.Options{}))
		if r["election_joined state=leading"] != 0 || r["election_info backend=memory candidate=a"] != 1 {
			t.Errorf("after Close: %v", r)
		}
	})
}

// BenchmarkCollect measures a scrape of ten thousand elections: totals only, and with metrics of each election.
func BenchmarkCollect(b *testing.B) {
	m := electiontest.New(b, election.Options{}).Start("a").Manager
	for i := range 10000 {
		joins(b, m, fmt.Sprintf("election-%05d", i), true)
	}
	for !m.Elections()[9999].Leading() {
		time.Sleep(10 * time.Millisecond)
	}
	for _, most := range []int{-1, 10000} {
		b.Run(fmt.Sprintf("most=%d", most), func(b *testing.B) {
			r := prometheus.NewRegistry()
			r.MustRegister(electionprom.New(m, electionprom.Options{Most: most}))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Gather(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
