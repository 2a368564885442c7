package migration

// Names returns what marks call the two stores, for who reads those: see
// [Options].FromName. At stage From the second may be empty.
func (b *Backend) Names() (from, to string) { return b.oldName, b.newName }
