package mysql

import (
	"encoding/json"

	"github.com/go-election/go-election/backend"
)

// maxHistory is the size of the column, in bytes.
const maxHistory = 4096

// remember puts a reign in front of a history, as JSON. The oldest give way if
// there are too many, or if they do not fit.
func remember(history string, r backend.Reign) string {
	reigns := backend.Remember(recall(history), r)
	for {
		text, err := json.Marshal(reigns)
		if err == nil && len(text) <= maxHistory {
			return string(text)
		}
		if len(reigns) == 0 {
			return "[]"
		}
		reigns = reigns[:len(reigns)-1]
	}
}

// recall reads a history, in which anybody may have written anything. What does
// not parse is shown as empty.
func recall(history string) []backend.Reign {
	var reigns []backend.Reign
	if len(history) > maxHistory || json.Unmarshal([]byte(history), &reigns) != nil {
		return nil
	}
	return backend.CleanHistory(reigns)
}

// ends returns what a row says about its past once its present reign is over.
func (r *row) ends(how backend.End, st *status) (end backend.End, id, nonce, history string) {
	if r.Vacant() {
		return r.End, r.LastID, r.LastNonce, r.history
	}
	reign := backend.Reign{Term: r.Term, ID: r.Holder.ID, From: r.elected}.Close(how, st.now, r.Lapsed())
	return how, r.Holder.ID, r.Holder.Nonce, remember(r.history, reign)
}
