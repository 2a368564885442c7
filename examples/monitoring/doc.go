// Package monitoring has no code: alerts.yml has rules for Prometheus, dashboard.json
// is a dashboard for Grafana 10 or later. Both use the metrics of package
// electionprom; docs/metrics.md explains them. The tests check that every query
// can be parsed and names existing metrics and labels, and that each alert fires,
// and does not fire, on the series in alerts_test.yml.
package monitoring
