package lease

import (
	"testing"
	"time"
)

// A store may have lost what tells the order of an item that somebody has edited. Whoever reads that must not be shown
// again what was there before.
func TestAReadingWithoutAnOrderReplacesWhatIsRemembered(t *testing.T) {
	var c cache
	c.clear()
	now, key := time.Now(), Key{Records, "jobs"}
	c.add(Item{Key: key, Version: "a", Order: 5}, &now)
	c.add(Item{Key: key, Version: "older", Order: 4}, &now)
	if got := c.items[key].Version; got != "a" {
		t.Errorf("an older item has replaced a newer one: %q", got)
	}
	c.add(Item{Key: key, Version: "edited"}, &now)
	if got := c.items[key].Version; got != "edited" {
		t.Errorf("what was read later is not kept: %q", got)
	}
}
