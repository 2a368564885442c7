package zookeeper

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// heartbeats is what a session's own node says: which of the session's grants were
// renewed, in groups that were renewed together. One number renews them all, so
// that the node stays small. A grant that is in no group was not renewed yet.
type heartbeats struct {
	Nonce  string   `json:"nonce"`
	ID     string   `json:"id"`
	Most   duration `json:"most_ttl,omitempty"` // the greatest TTL of any renewal so far
	Groups []group  `json:"renewed,omitempty"`
}

type group struct {
	Heartbeat uint64   `json:"heartbeat,string"`
	TTL       duration `json:"ttl"`
	Renew     duration `json:"renew"`
	Grants    [][2]int `json:"grants"` // from, to
}

const maxHeartbeats = 1 << 20

// parseHeartbeats reads a session's node. What is not ours counts as empty.
func parseHeartbeats(data []byte) *heartbeats {
	var b heartbeats
	if len(data) > maxHeartbeats || json.Unmarshal(data, &b) != nil {
		return &heartbeats{}
	}
	return &b
}

func (b *heartbeats) encode() []byte {
	data, err := json.Marshal(b)
	if err != nil {
		panic("zookeeper: heartbeats cannot be written as JSON: " + err.Error()) // strings and numbers only
	}
	return data
}

// find returns the group of a grant, or nil.
func (b *heartbeats) find(grant int) *group {
	for i := range b.Groups {
		for _, r := range b.Groups[i].Grants {
			if grant >= r[0] && grant <= r[1] {
				return &b.Groups[i]
			}
		}
	}
	return nil
}

// heartbeat is the heartbeat of a lease that was granted with the heartbeat first and hangs on
// the session's node with the czxid home. g is the group of its last renewal, or
// nil. A heartbeat never comes back: first is random, and so is g's; and should somebody
// delete the session's node, which makes the holder forget its groups, the next
// one has another czxid.
func (g *group) heartbeat(first uint64, home int64, election string) uint64 {
	last := uint64(0)
	if g != nil {
		last = g.Heartbeat
	}
	return mix(first, fmt.Sprintf("%x %x %s", home, last, election))
}

// renewed returns b with these grants renewed. held are the grants that are still
// held, in any order: numbers of others may lie in a range, as nobody asks for them.
func (b *heartbeats) renewed(heartbeat uint64, ttl, renew time.Duration, now, held []int) *heartbeats {
	in := map[int]int{} // group of each grant that is held
	for _, g := range held {
		in[g] = -1
		for i := range b.Groups {
			for _, r := range b.Groups[i].Grants {
				if g >= r[0] && g <= r[1] {
					in[g] = i
				}
			}
		}
	}
	groups := slices.Clone(b.Groups)
	groups = append(groups, group{Heartbeat: heartbeat, TTL: duration(ttl), Renew: duration(renew)})
	for i := range groups {
		groups[i].Grants = nil
	}
	for _, g := range now {
		in[g] = len(groups) - 1
	}
	var all []int
	for g := range in {
		all = append(all, g)
	}
	slices.Sort(all)
	last := -1 // group of the grant before
	for _, g := range all {
		at := in[g]
		switch {
		case at < 0:
		case at == last:
			r := groups[at].Grants
			r[len(r)-1][1] = g
		default:
			groups[at].Grants = append(groups[at].Grants, [2]int{g, g})
		}
		last = at
	}
	next := &heartbeats{Nonce: b.Nonce, ID: b.ID, Most: max(b.Most, duration(ttl))}
	for _, g := range groups {
		if len(g.Grants) > 0 {
			next.Groups = append(next.Groups, g)
		}
	}
	return next
}
