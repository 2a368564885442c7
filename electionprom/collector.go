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
	// Namespace begins the name of each metric: myapp makes myapp_election_leading. It must be letters, digits and
	// underscores, or the registry refuses the Collector. Default: "", the names are election_leading and so on.
	Namespace string

	// Most is the greatest number of elections with metrics of their own: three
	// series for each election in every process. If the manager has joined more, no
	// election has metrics of its own, and election_omitted is the number of
	// elections. Default: 500. Negative: no election has them.
	Most int
}

const defaultMost = 500

// A Collector collects the metrics of one manager. It is safe for concurrent use, and
// may be used after the manager is closed.
type Collector struct {
	manager *election.Manager
	most    int
	metrics
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector of m's metrics, which the program registers.
func New(m *election.Manager, o Options) *Collector {
	return &Collector{manager: m, most: max(cmp.Or(o.Most, defaultMost), 0), metrics: newMetrics(o.Namespace)}
}

// metrics are the descriptions of all metrics.
type metrics struct {
	info, ttl, joined, omitted, changes, calls, errors, remaining, watchers, queue *prometheus.Desc
	leading, candidate, term                                                       *prometheus.Desc // of one election
}

func newMetrics(namespace string) metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "election", name), help, labels, nil)
	}
	return metrics{
		info:      desc("info", "The backend and id of this candidate.", "backend", "candidate"),
		ttl:       desc("ttl_seconds", "TTL of this manager's leases."),
		joined:    desc("joined", "Joined elections by the state that this process knows.", "state"),
		omitted:   desc("omitted", "Joined elections that have no metrics of their own, because there are too many."),
		changes:   desc("changes_total", "Events to watchers by kind, reason, and whether they concern a leadership of this process.", "kind", "own", "reason"),
		calls:     desc("calls_seconds", "Duration of calls to the store.", "call"),
		errors:    desc("errors_total", "Failed calls, or items of a batch, by class of the error.", "call", "class"),
		remaining: desc("renewal_remaining_ratio", "Part of the TTL for which a lease was still valid when its renewal was confirmed."),
		watchers:  desc("watchers", "Registered callbacks."),
		queue:     desc("watcher_queue", "Events that wait for callbacks."),
		leading:   desc("leading", "Whether this process leads the election now.", "election"),
		candidate: desc("candidate", "Whether this process leads the election or could take it over: it campaigns, is healthy and not paused.", "election"),
		term:      desc("term", "The last term that this process knows.", "election"),
	}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.info, c.ttl, c.joined, c.omitted, c.changes, c.calls, c.errors,
		c.remaining, c.watchers, c.queue, c.leading, c.candidate, c.term,
	} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	value := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) { value(d, prometheus.GaugeValue, v, labels...) }

	s := c.manager.Stats()
	gauge(c.info, 1, s.Backend, c.manager.ID())
	gauge(c.ttl, s.TTL.Seconds())
	gauge(c.watchers, float64(s.Watchers))
	gauge(c.queue, float64(s.Waiting))
	for _, ch := range s.Changes {
		value(c.changes, prometheus.CounterValue, float64(ch.Count), ch.Kind.String(), strconv.FormatBool(ch.Own), string(ch.Reason))
	}
	for _, call := range s.Calls {
		value(c.errors, prometheus.CounterValue, float64(call.Unavailable), call.Kind, "unavailable")
		value(c.errors, prometheus.CounterValue, float64(call.Denied), call.Kind, "denied")
		value(c.errors, prometheus.CounterValue, float64(call.Invalid), call.Kind, "invalid")
		if call.Kind != "listen" { // listen waits for a change
			to <- histogram(c.calls, call.Took, time.Second, call.Kind)
		}
	}
	to <- histogram(c.remaining, s.Remaining, s.TTL)
	c.elections(gauge)
}

// elections collects the totals of all elections, and the metrics of each unless there are
// too many.
func (c *Collector) elections(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	status := c.manager.Status()
	list := status.Elections
	each := len(list) <= c.most
	var leading, following, vacant, unknown int
	for _, now := range list {
		own, candidate := 0, 0
		switch {
		case now.Leading:
			leading++
			own = 1
		case now.Kind == election.Elected:
			following++
		case now.Kind == election.Vacant:
			vacant++
		default:
			unknown++
		}
		if now.Leading || now.Campaigning && !now.Paused && !status.Unhealthy {
			candidate = 1
		}
		if each {
			gauge(c.leading, float64(own), now.Election)
			gauge(c.candidate, float64(candidate), now.Election)
			gauge(c.term, float64(now.Term), now.Election)
		}
	}
	gauge(c.joined, float64(leading), "leading")
	gauge(c.joined, float64(following), "following")
	gauge(c.joined, float64(vacant), "vacant")
	gauge(c.joined, float64(unknown), "unknown")
	omitted := len(list)
	if each {
		omitted = 0
	}
	gauge(c.omitted, float64(omitted))
}

// histogram turns h into a metric in multiples of unit.
func histogram(d *prometheus.Desc, h election.Histogram, unit time.Duration, labels ...string) prometheus.Metric {
	buckets, sum := make(map[float64]uint64, len(h.Bounds)), uint64(0)
	for i, bound := range h.Bounds {
		sum += h.Counts[i]
		le := float64(bound) / float64(unit)
		buckets[math.Round(le*1e6)/1e6] = sum // rounded, so that processes with different TTLs have the same buckets
	}
	return prometheus.MustNewConstHistogram(d, h.Count, float64(h.Sum)/float64(unit), buckets, labels...)
}
