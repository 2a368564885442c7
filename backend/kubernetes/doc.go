// Package kubernetes keeps leases in Lease objects of Kubernetes.
package kubernetes
