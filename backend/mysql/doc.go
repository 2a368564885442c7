// Package mysql keeps leases in MySQL 8.0 or later, or MariaDB 10.6 or later.
package mysql
