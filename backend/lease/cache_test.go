package lease

import "testing"

// A store may have lost what tells the order of an item that somebody has edited. Whoever reads that must not be shown
// again what was there before.
func TestAReadingWithoutAnOrderReplacesWhatIsRemembered(t *testing.T) {
	var c cache
	c.clear()
	key := Key{Records, "jobs"}
	c.add(Item{Key: key, Version: "a", Order: 5})
	c.add(Item{Key: key, Version: "older", Order: 4})
	if got := c.items[key].Version; got != "a" {
		t.Errorf("an older item has replaced a newer one: %q", got)
	}
	c.add(Item{Key: key, Version: "edited"})
	if got := c.items[key].Version; got != "edited" {
		t.Errorf("what was read later is not kept: %q", got)
	}
}
