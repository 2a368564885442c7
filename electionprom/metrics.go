package electionprom

import "github.com/prometheus/client_golang/prometheus"

// The metrics of a collector, by their names without namespace and "election".
type metrics map[string]*prometheus.Desc

// newMetrics describes metrics. Each has a name, a help text, and its labels.
func newMetrics(namespace string, constant prometheus.Labels, list [][]string) metrics {
	m := metrics{}
	for _, x := range list {
		name := prometheus.BuildFQName(namespace, "election", x[0])
		m[x[0]] = prometheus.NewDesc(name, x[1], x[2:], constant)
	}
	return m
}

// Describe implements [prometheus.Collector].
func (m metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range m {
		to <- d
	}
}

func (m metrics) gauge(to chan<- prometheus.Metric, name string, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(m[name], prometheus.GaugeValue, v, labels...)
}

func (m metrics) counter(to chan<- prometheus.Metric, name string, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(m[name], prometheus.CounterValue, v, labels...)
}
