// Package drivertest has what the tests of several drivers assert in the same words: on the servers of
// lab/testbed, and about the protocol of backend/lease. What every driver must pass is in
// conformance/leasetest and in conformance; here is what holds for a kind of store: one with a table
// ([RunSQLTable]), with a replica ([Failovers]), with notifications ([Listen], [HandsOver]), which another
// one may answer for ([Elsewhere], [NotInTurns]), or to which another program's elections move ([Road]). And
// a [Candidate] does by hand what a manager does.
package drivertest

import "time"

// patience is how long an event may take on a busy machine; usually it takes a second or two.
const patience = 2 * time.Minute
