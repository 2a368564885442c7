package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// txn runs a transaction: all of it is done, or nothing.
func (b *Backend) txn(ctx context.Context, ops api.KVTxnOps) (ok bool, answer *api.KVTxnResponse, err error) {
	for _, op := range ops { // the client's own setting does not reach them
		op.Namespace, op.Partition = b.namespace, b.partition
	}
	ok, answer, _, err = b.client.KV().Txn(ops, query(ctx))
	if err != nil && strings.Contains(err.Error(), "connection reset") { // the client wraps some, and prints others
		// An agent that expects TLS says so and hangs up. Of a request that it has not
		// read to its end only the hanging up arrives; a short one is answered.
		if _, why := b.client.Status().LeaderWithQueryOptions(query(ctx)); why != nil {
			err = why
		}
	}
	return ok, answer, err
}

// txnError is why a transaction was not applied.
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
	return fmt.Errorf("%w: %s", errConflict, backend.Clean(text, 200, false))
}

// sessionEnded reports whether a transaction failed because the session has ended.
func sessionEnded(answer *api.KVTxnResponse) bool {
	return answer != nil && slices.ContainsFunc(answer.Errors, func(e *api.TxnError) bool {
		return strings.HasPrefix(e.What, "invalid session ")
	})
}

// changedMeanwhile reports whether an operation failed since the key is not as it was
// read. Texts end in, or contain, the names of keys: only their beginnings are Consul's.
func changedMeanwhile(text string) bool {
	for _, begin := range []string{"failed to set key ", "failed to lock key ", "failed to unlock key ", "failed to check index, ", "failed index check for ", "key "} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}

func delayed(text string) bool { return strings.HasSuffix(text, "due to lock delay") }
