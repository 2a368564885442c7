// Package monitoring has no code: alerts.yml are rules for Prometheus,
// dashboard.json is to be imported into Grafana (10 or later). Both are for what
// package electionprom exports; docs/metrics.md explains them. Its tests check
// that every query of both can be parsed and names metrics and labels that exist,
// and let each alert fire, and not fire, on series in alerts_test.yml.
package monitoring
