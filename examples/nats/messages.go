package natskv

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-election/go-election/backend"
)

// A message is the last one of a subject.
type message struct {
	seq    uint64
	header nats.Header
	data   []byte
}

// required returns a message that requires the revision of a subject; "": of its own.
func required(subject string, of string, revision uint64) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(revision, 10))
	if of != "" {
		m.Header.Set("Nats-Expected-Last-Subject-Sequence-Subject", of)
	}
	return m
}

// An ack is the server's answer to a batch.
type ack struct {
	Seq   uint64 // of the last message
	Error *jetstream.APIError
}

// ask sends batches, in this order, and returns the answers that came; nil: none.
func (d *driver) ask(ctx context.Context, batches ...[]*nats.Msg) ([]*ack, error) {
	acks := make([]*ack, len(batches))
	inbox, id := d.nc.NewInbox(), string(backend.NewNonce())
	sub, err := d.nc.SubscribeSync(inbox + ".*")
	if err != nil {
		return acks, d.failed(err)
	}
	defer sub.Unsubscribe()
	for n, batch := range batches {
		for i, m := range batch {
			if len(batch) > 1 {
				m.Header.Set("Nats-Batch-Id", id+strconv.Itoa(n))
				m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
			}
			if i == len(batch)-1 {
				m.Reply = inbox + "." + strconv.Itoa(n)
				if i > 0 {
					m.Header.Set("Nats-Batch-Commit", "1")
				}
			}
			if err := d.nc.PublishMsg(m); err != nil {
				return acks, d.failed(err)
			}
		}
	}
	for range batches {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return acks, d.failed(err)
		}
		a := &ack{}
		if m.Header.Get("Status") != "" { // it has reached nobody
			d.current.Store(nil)
			a.Error = &jetstream.APIError{Code: 503, Description: "no server has the bucket now"}
		} else if err := json.Unmarshal(m.Data, a); err != nil {
			return acks, d.failed(err)
		}
		if n, err := strconv.Atoi(m.Subject[len(inbox)+1:]); err == nil {
			acks[n] = a
		}
		d.note(0, a.Seq)
	}
	return acks, nil
}

// get reads the last messages of subjects, and the revision up to which all of them are known. Parts
// are read one after the other. If there is not even the barrier, it is another bucket.
func (d *driver) get(ctx context.Context, s *store, subjects []string) (got map[string]*message, upTo uint64, err error) {
	d.mu.Lock()
	seen, need := d.seen, uint64(0)
	d.mu.Unlock()
	if s.replicas > 1 {
		acks, err := d.ask(ctx, []*nats.Msg{{Subject: s.prefix + "barrier"}})
		if err != nil || acks[0].Error != nil {
			return nil, 0, d.failed(cmpError(err, acks[0]))
		}
		need = acks[0].Seq
		d.note(seen, need)
	}
	got = make(map[string]*message, len(subjects))
	for from := 0; from == 0 || from < len(subjects); from += 100 { // the server sends at most 1024 messages or 64 MiB
		part := append(slices.Clone(subjects[from:min(from+100, len(subjects))]), s.prefix+"barrier")
		at, err := d.getPart(ctx, part, got)
		for err == nil && at < need && at > 0 { // this replica lags
			if err = pause(ctx, 2*time.Millisecond); err == nil {
				at, err = d.getPart(ctx, part, got)
			}
		}
		if err != nil {
			return nil, 0, d.failed(err)
		}
		if s.replicas == 1 {
			d.note(seen, at)
		}
		if from == 0 {
			upTo = at
		}
	}
	return got, upTo, nil
}

func cmpError(err error, a *ack) error {
	if err != nil {
		return err
	}
	return a.Error
}

// getPart reads the last messages of subjects at one revision; 0: there are none.
func (d *driver) getPart(ctx context.Context, subjects []string, got map[string]*message) (upTo uint64, err error) {
	request, err := json.Marshal(map[string]any{"multi_last": subjects})
	if err != nil {
		return 0, err
	}
	inbox := d.nc.NewInbox()
	sub, err := d.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, err
	}
	defer sub.Unsubscribe()
	if err := d.nc.PublishRequest("$JS.API.DIRECT.GET."+d.stream, inbox, request); err != nil {
		return 0, err
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return 0, err
		}
		switch status := m.Header.Get("Status"); {
		case status == "":
			seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				return 0, err
			}
			got[m.Header.Get("Nats-Subject")] = &message{seq, m.Header, m.Data}
		case status == "204" && m.Header.Get("Nats-Num-Pending") == "0":
			return strconv.ParseUint(m.Header.Get("Nats-UpTo-Sequence"), 10, 64)
		default:
			d.current.Store(nil)
			return 0, fmt.Errorf("%w: a reading ends with %s %s", backend.ErrUnavailable, status, m.Header.Get("Description"))
		}
	}
}

// note notes the revision of an answer. If it is less than what was seen before the call, the store
// went back.
func (d *driver) note(seen, at uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at < seen && seen <= d.seen {
		d.wentBack, d.backTo, d.seen = d.wentBack+1, at, at
	}
	d.seen = max(d.seen, at)
}

func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
