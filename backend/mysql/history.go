package mysql

import (
	"encoding/json"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// maxHistory is the size of the column, in bytes.
const maxHistory = 4096

// historyText returns leaderships as JSON. It drops the oldest ones if they do not fit.
func historyText(leaderships []backend.Leadership) string {
	for {
		text, err := json.Marshal(leaderships)
		if err == nil && len(text) <= maxHistory {
			return string(text)
		}
		if len(leaderships) == 0 {
			return "[]"
		}
		leaderships = leaderships[:len(leaderships)-1]
	}
}

// parseHistory parses a history. Any account that can write the table may have written it;
// what does not parse is shown as empty.
func parseHistory(history string) []backend.Leadership {
	var leaderships []backend.Leadership
	if len(history) > maxHistory || json.Unmarshal([]byte(history), &leaderships) != nil {
		return nil
	}
	return clean.History(leaderships)
}

// afterEnd returns what a row says about its past once its present leadership has ended.
func (r *row) afterEnd(how backend.End, st *status) (end backend.End, id, history string) {
	if r.Vacant() {
		return r.End, r.LastID, r.history
	}
	leaderships := clean.Remember(parseHistory(r.history), backend.Leadership{Term: r.Term, ID: r.Holder.ID, From: r.elected}, how, st.now, r.ExpiredFor())
	return how, r.Holder.ID, historyText(leaderships)
}
