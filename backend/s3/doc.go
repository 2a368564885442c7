// Package s3 keeps leases in one object of a bucket: of Amazon S3, or another store whose conditional writes
// hold. docs/s3.md has rights, costs and figures.
//
// The object is a register (package register): it is read with GetObject and replaced by a conditional
// PutObject, If-Match with its ETag, or If-None-Match if there is none. All elections of a prefix are in it.
// No clock but that of each process itself is asked.
//
// # What two processes could each believe
//
// Package register has the argument. It needs a store that compares. Some ignore the conditions, and so does
// a proxy that drops the headers: then every write succeeds, and each process would believe that it leads. So
// one that campaigns first lets a few writers race on a scratch object ([Backend.Prepare]). If more than one
// of them wins, or a condition that cannot hold does, it never bids.
//
//   - 412 says that the object has another ETag. If a client library repeated the request, it may have one
//     because the first copy was applied: package register finds its own text in the object then.
//   - 409 says that another conditional write was on its way, and that this one was not applied.
//   - 404 says, for a write with If-Match, that the object was deleted.
//   - All else leaves open whether the object was replaced. Nothing is sent twice by this package.
package s3
