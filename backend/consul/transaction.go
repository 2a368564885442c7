package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend/clean"
)

// txn runs a transaction: Consul applies all of it or nothing.
func (b *Backend) txn(ctx context.Context, ops api.KVTxnOps) (ok bool, answer *api.KVTxnResponse, err error) {
	for _, op := range ops { // the client does not apply its own settings to them
		op.Namespace, op.Partition = b.namespace, b.partition
	}
	ok, answer, _, err = b.client.KV().Txn(ops, query(ctx))
	if err != nil && strings.Contains(err.Error(), "connection reset") { // some are wrapped, others only printed
		// An agent that expects TLS says so and closes the connection. If it has not read
		// the whole request, only the reset arrives. A short request gets the answer.
		if _, why := b.client.Status().LeaderWithQueryOptions(query(ctx)); why != nil {
			err = why
		}
	}
	return ok, answer, err
}

// txnError returns why a transaction was not applied.
func txnError(answer *api.KVTxnResponse) error {
	if answer == nil || len(answer.Errors) == 0 {
		return errConflict
	}
	text := answer.Errors[0].What
	if delayed(text) {
		return errDelayed
	}
	if strings.Contains(text, "ermission denied") || strings.Contains(text, "ACL not found") {
		return errors.New(text)
	}
	return fmt.Errorf("%w: %s", errConflict, clean.Text(text, 200, false))
}

// sessionEnded reports whether a transaction failed because the session has ended.
func sessionEnded(answer *api.KVTxnResponse) bool {
	return answer != nil && slices.ContainsFunc(answer.Errors, func(e *api.TxnError) bool {
		return strings.HasPrefix(e.What, "invalid session ")
	})
}

// changedMeanwhile reports whether an operation failed because the key is not as it was read. Only
// the beginning of the text is Consul's; the rest contains the name of the key.
func changedMeanwhile(text string) bool {
	for _, begin := range []string{"failed to set key ", "failed to lock key ", "failed to unlock key ", "failed to check index, ", "failed index check for ", "key "} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}

func delayed(text string) bool { return strings.HasSuffix(text, "due to lock delay") }
