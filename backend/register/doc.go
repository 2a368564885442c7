// Package register makes a backend of a store that keeps one value: an object in an object store, a file, a
// row, a key. Such a store is a [Register], which can read the value, and replace it only if it has not
// changed meanwhile. [New] does the rest. The package's example is a whole backend in fifty lines.
//
// # The document
//
// The value is one JSON document with all items of package lease. A change reads it, compares the items that
// it requires, puts the new ones in, and swaps it. So a change of several items is atomic.
//
// The document has an identity, a count of its swaps, and a tag: fresh random text of the swap that wrote it.
// Each item has the tags of the swaps that made it and wrote it last.
//
// # What could two processes each believe?
//
// Two never lead at once if the store compares and swaps, no version comes twice, and losses are noticed.
//
//   - Compare and swap. Of two changes that were both granted, the second swap names the version that the
//     first one made. So its items were compared with what the first one left.
//   - No version comes twice. That of an item is a random tag, so a restored copy that counts anew makes
//     others. That of the value is the register's affair; a hash will do, since each value has a fresh tag.
//   - An answer is lost. The swap may be applied now, later, twice or never: the change is Unknown. A late
//     copy names a version that is gone once anything else was written, and then it changes nothing.
//   - One's own success is told as a refusal, because a client library sent the swap twice. Who finds its
//     tag in the document has succeeded. If somebody has written over all of it, the change is refused.
//   - The store goes back to an older copy. A document is compared with the newest one that was known when
//     the reading began. If it has a smaller count, or an item of that time that was not there, the store
//     went back: what it has is old, and changes by what was read before are refused.
//   - The value is deleted. The next reading makes a document of another identity, which is another store.
//
// A change is one Get and one Swap, and again after a random wait if another process has come first. What
// somebody else has written into the document counts as edited. A value that is none is left alone.
package register
