package electionhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/go-election/go-election/backend"
)

// A client may ask for the records of the whole store at any time, so one reading serves all
// clients for a while, and has limits of its own.
const (
	keepRecords = 10 * time.Second
	maxRecords  = 10_000
	maxReading  = 5 * time.Second
)

type recordsJSON struct {
	Now      time.Time    `json:"now"`
	Read     int64        `json:"read_ms_ago"`
	Matching int          `json:"matching"`
	More     bool         `json:"more"` // the store has more records, which were not read
	Records  []listedJSON `json:"records"`
}

type listedJSON struct {
	Election string `json:"election"`
	Joined   bool   `json:"joined"`
	storedJSON
	Expired bool `json:"expired"`
}

// A listing is what one reading of the store's records has found.
type listing struct {
	at      time.Time
	more    bool
	records []listedJSON
	sinces  map[string]storeSince
}

// listRecords answers with the elections of the store, whether this process has joined them or
// not.
func (h *Handler) listRecords(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", 1000, maxRecords)
	if !ok {
		return
	}
	joined := r.URL.Query().Get("joined")
	if joined != "" && joined != "yes" && joined != "no" {
		fail(w, http.StatusBadRequest, "joined must be yes or no")
		return
	}
	list, err := h.listings.get("", h.readRecords)
	if err != nil {
		h.failStore(w, err)
		return
	}
	s, now := h.snapshot()
	here := make(map[string]bool)
	for i := range s.Elections {
		here[s.Elections[i].Election] = true
	}
	j := recordsJSON{Now: now.UTC(), Read: max(0, now.Sub(list.at)).Milliseconds(), More: list.more, Records: []listedJSON{}}
	for _, l := range list.records {
		if l.Joined = here[l.Election]; joined != "" && l.Joined != (joined == "yes") {
			continue
		}
		if j.Matching++; len(j.Records) < limit {
			j.Records = append(j.Records, l)
		}
	}
	reply(w, http.StatusOK, j)
}

// readRecords reads the records of the store, without those of retired elections. If time runs
// out, the records that were read until then are the answer.
func (h *Handler) readRecords() (list listing, err error) {
	ctx, cancel := context.WithTimeout(h.ctx, maxReading)
	defer cancel()
	n := 0
	list.sinces = map[string]storeSince{}
	for r, err := range h.manager.Records(ctx) {
		if err == nil && n < maxRecords {
			list.sinces[r.Election] = sinceOf(r)
			if n++; !r.Forgotten() {
				list.records = append(list.records, h.describeListed(r))
			}
			continue
		}
		if err != nil && (ctx.Err() != context.DeadlineExceeded || n == 0) {
			return listing{}, err
		}
		list.more = true
		break
	}
	list.at = time.Now()
	return list, nil
}

func (h *Handler) describeListed(r backend.Record) listedJSON {
	r.Holder.Metadata = "" // 4 KiB of each of many records
	expired := r.ObserveFor != backend.ExpiresInStore && r.ExpiredFor() > 0
	return listedJSON{Election: r.Election, storedJSON: *h.describeRecord(r), Expired: expired}
}
