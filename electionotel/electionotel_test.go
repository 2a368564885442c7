package electionotel_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionotel"
	"github.com/go-election/go-election/electionprom"
	"github.com/go-election/go-election/electiontest"
)

// A reader gets what Prometheus would scrape: a gauge, a counter and a histogram.
func TestAReaderCollectsTheMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		m := g.Start("a").Manager
		e, err := m.Join("billing")
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Lead(nil); err != nil {
			t.Fatal(err)
		}
		g.Leader("billing")
		time.Sleep(time.Minute)

		reader := metric.NewManualReader(metric.WithProducer(electionotel.NewProducer(m, electionprom.Options{})))
		var all metricdata.ResourceMetrics
		metric.NewMeterProvider(metric.WithReader(reader))
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		found := map[string]metricdata.Aggregation{}
		for _, scope := range all.ScopeMetrics {
			for _, x := range scope.Metrics {
				found[x.Name] = x.Data
			}
		}
		leading, ok := found["election_leading"].(metricdata.Gauge[float64])
		if !ok || len(leading.DataPoints) != 1 || leading.DataPoints[0].Value != 1 {
			t.Errorf("election_leading is %+v", found["election_leading"])
		} else if name, _ := leading.DataPoints[0].Attributes.Value(attribute.Key("election")); name.AsString() != "billing" {
			t.Errorf("election_leading is about %q", name.AsString())
		}
		changes, ok := found["election_changes_total"].(metricdata.Sum[float64])
		if !ok || !changes.IsMonotonic {
			t.Errorf("election_changes_total is %+v", found["election_changes_total"])
		}
		left, ok := found["election_renewal_remaining_ratio"].(metricdata.Histogram[float64])
		if !ok || len(left.DataPoints) != 1 || left.DataPoints[0].Count < 15 {
			t.Errorf("election_renewal_remaining_ratio is %+v, want 18 renewals in a minute", found["election_renewal_remaining_ratio"])
		}
	})
}
