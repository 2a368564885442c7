// Package electionotel gives the metrics of a manager to OpenTelemetry:
//
//	producer := metric.WithProducer(electionotel.NewProducer(m, electionprom.Options{}))
//	provider := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(exporter, producer)))
//
// The metrics are those of package electionprom, with its names and labels, so the same alarms and
// dashboards fit: docs/metrics.md. A counter is a monotonic sum, a histogram has explicit bounds. Nothing
// is read between two collections, and nothing is global.
//
// The package is a module of its own, so that programs without OpenTelemetry do not depend on it.
package electionotel

import (
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionprom"
)

// NewProducer returns a producer of m's metrics, for metric.WithProducer of any reader. It may be used
// after the manager is closed.
func NewProducer(m *election.Manager, o electionprom.Options) metric.Producer {
	registry := prometheus.NewRegistry()
	registry.MustRegister(electionprom.New(m, o))
	return bridge.NewMetricProducer(bridge.WithGatherer(registry))
}
