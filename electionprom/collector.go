package electionprom

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-election/go-election/election"
)

// Options configures a [Collector]. The zero value is ready to use.
type Options struct {
	// Namespace begins the name of each metric: myapp makes myapp_election_leading. It must be letters,
	// digits and underscores, or the registry refuses the Collector. Default: "", the names are
	// election_leading and so on.
	Namespace string

	// Most is the greatest number of elections with metrics of their own: three series for each election in
	// every process. If the manager has joined more, no election has metrics of its own, and election_omitted
	// is the number of elections. Default: 500. Negative: no election has them.
	Most int
}

// A Collector collects the metrics of one manager. It is safe for concurrent use, and
// may be used after the manager is closed.
type Collector struct {
	metrics
	manager *election.Manager
	most    int
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector of m's metrics, which the program registers.
func New(m *election.Manager, o Options) *Collector {
	c := &Collector{manager: m, most: max(cmp.Or(o.Most, 500), 0)}
	c.metrics = newMetrics(o.Namespace, nil, [][]string{
		{"info", "The backend and id of this candidate.", "backend", "candidate"},
		{"ttl_seconds", "TTL of this manager's leases."},
		{"joined", "Joined elections by the state that this process knows.", "state"},
		{"omitted", "Joined elections that have no metrics of their own, because there are too many."},
		{"changes_total", "Events to watchers; own: about its own leaderships.", "kind", "own", "reason"},
		{"calls_seconds", "Duration of calls to the store.", "call"},
		{"errors_total", "Failed calls, or items of a batch, by class of the error.", "call", "class"},
		{"renewal_remaining_ratio", "Part of the TTL that a lease was still valid when it was renewed."},
		{"watchers", "Registered callbacks."},
		{"watcher_queue", "Events that wait for callbacks."},
		{"leading", "Whether this process leads the election now.", "election"},
		{"candidate", "Whether this process leads, or campaigns, healthy and not paused.", "election"},
		{"term", "The last term that this process knows.", "election"},
	})
	return c
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	s := c.manager.Stats()
	c.gauge(to, "info", 1, s.Backend, c.manager.ID())
	c.gauge(to, "ttl_seconds", s.TTL.Seconds())
	c.gauge(to, "watchers", float64(s.Watchers))
	c.gauge(to, "watcher_queue", float64(s.Waiting))
	for _, ch := range s.Changes {
		own := strconv.FormatBool(ch.Own)
		c.counter(to, "changes_total", float64(ch.Count), ch.Kind.String(), own, string(ch.Reason))
	}
	for _, call := range s.Calls {
		c.counter(to, "errors_total", float64(call.Unavailable), call.Kind, "unavailable")
		c.counter(to, "errors_total", float64(call.Denied), call.Kind, "denied")
		c.counter(to, "errors_total", float64(call.Invalid), call.Kind, "invalid")
		if call.Kind != "listen" { // listen waits for a change
			to <- histogram(c.metrics["calls_seconds"], call.Took, time.Second, call.Kind)
		}
	}
	to <- histogram(c.metrics["renewal_remaining_ratio"], s.Remaining, s.TTL)
	c.elections(to)
}

// elections collects the totals of all elections, and the metrics of each unless there are too many.
func (c *Collector) elections(to chan<- prometheus.Metric) {
	status := c.manager.Status()
	joined := map[string]int{}
	omitted := 0
	each := len(status.Elections) <= c.most
	if !each {
		omitted = len(status.Elections)
	}
	for _, now := range status.Elections {
		joined[stateOf(now)]++
		if each {
			couldLead := now.Leading || now.Campaigning && !now.Paused && !status.Unhealthy
			c.gauge(to, "leading", oneIf(now.Leading), now.Election)
			c.gauge(to, "candidate", oneIf(couldLead), now.Election)
			c.gauge(to, "term", float64(now.Term), now.Election)
		}
	}
	for _, state := range []string{"leading", "following", "vacant", "unknown"} {
		c.gauge(to, "joined", float64(joined[state]), state)
	}
	c.gauge(to, "omitted", float64(omitted))
}

func stateOf(e election.ElectionStatus) string {
	switch {
	case e.Leading:
		return "leading"
	case e.Kind == election.Elected:
		return "following"
	}
	return e.Kind.String()
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// histogram turns h into a metric in multiples of unit, with values of labels.
func histogram(d *prometheus.Desc, h election.Histogram, unit time.Duration, by ...string) prometheus.Metric {
	buckets, sum := make(map[float64]uint64, len(h.Bounds)), uint64(0)
	for i, bound := range h.Bounds {
		sum += h.Counts[i]
		le := float64(bound) / float64(unit)
		buckets[math.Round(le*1e6)/1e6] = sum // rounded: the same for each TTL
	}
	return prometheus.MustNewConstHistogram(d, h.Count, float64(h.Sum)/float64(unit), buckets, by...)
}
