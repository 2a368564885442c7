// Package postgres keeps leases in PostgreSQL.
package postgres
