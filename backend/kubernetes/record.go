package kubernetes

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// Annotations and labels of this module. A member of client-go leaves them as they are.
const (
	domain     = "go-election.github.io/"
	recordKey  = domain + "record" // annotation of an election's Lease: a record
	sumKey     = domain + "sum"    // annotation beside it: a digest of its text
	censusKey  = domain + "census" // annotation of the census
	memberKey  = domain + "member" // annotation of a member's Lease: a lease.Session
	touchKey   = domain + "touch"  // annotation: a random text, by which a Lease gets another resourceVersion
	kindKey    = domain + "kind"   // label of a member's Lease, which has kindMember
	kindMember = "member"
)

// A record is what this module keeps of an election besides the Lease's spec. It says which spec
// belongs to it (see spec). If the Lease has another one, another program has written that.
//
// It is the record of the other stores. Its Epoch is the UID of the Lease; empty: nobody was granted this
// Lease yet. Its Heartbeat is fresh with each renewal, too, and Write is random. A vacant one was Elected
// when the last leadership ended.
type record struct{ lease.Record }

func (r *record) vacant() bool { return r.ID == "" && r.Nonce == "" }

// recordOf returns the record beside a Lease; nil: there is none. It is empty, and so of no election, if this
// module has not written it so: its sum shows an edit. That is no secret, since whoever can write the Lease
// can depose its leader anyway.
func recordOf(l *coordination.Lease) *record {
	text, ok := l.Annotations[recordKey]
	if !ok {
		return nil
	}
	r, _ := lease.Decode(lease.Records, []byte(text)).(*lease.Record)
	if r == nil || l.Annotations[sumKey] != digest(text) {
		return &record{}
	}
	r.TTL = min(r.TTL, lease.Span(MaxTTL))
	return &record{*r}
}

// spec returns the spec that belongs to the record, in the layout of client-go, but for leaseTransitions,
// which says nothing of who leads. Its members take over a lease without a holder at once, and no other
// before leaseDurationSeconds. So a seal is a holder that they will not outlive.
func (r *record) spec() coordination.LeaseSpec {
	holder, seconds := r.ID, int32((time.Duration(r.TTL)+time.Second-1)/time.Second) // rounded up
	switch {
	case r.MovedTo != "":
		holder, seconds = "moved to "+r.MovedTo, math.MaxInt32
	case r.vacant():
		seconds = 1
	case time.Duration(r.Renew) < time.Second: // they compare whole seconds, and may not see the last renewal
		seconds++
	}
	return coordination.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds,
		AcquireTime: micro(r.Elected), RenewTime: micro(r.Written),
	}
}

// wrote reports whether the spec follows from the record: otherwise another program has written it.
func (r *record) wrote(s *coordination.LeaseSpec) bool {
	own := r.spec()
	own.LeaseTransitions = s.LeaseTransitions
	return equality.Semantic.DeepEqual(*s, own)
}

// micro returns the time as Kubernetes keeps it.
func micro(t time.Time) *meta.MicroTime { return &meta.MicroTime{Time: t.Truncate(time.Microsecond)} }

// holder and seconds return fields of a spec; zero if they are missing.
func holder(s *coordination.LeaseSpec) string { return ptr.Deref(s.HolderIdentity, "") }
func seconds(s *coordination.LeaseSpec) int32 { return max(0, ptr.Deref(s.LeaseDurationSeconds, 0)) }

// digest returns a short text that stands for others.
func digest(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// A naming says which Lease has which election.
type naming struct{ prefix string }

// Names of Leases that are no elections. An election of such a name gets an escaped one.
const reserved = "go-election-"

func (n naming) census() string { return n.prefix + reserved + "census" }

func (n naming) member(nonce backend.Nonce) string {
	return n.prefix + reserved + "member-" + string(nonce)
}

// election returns the name of an election's Lease: the prefix and the election's name, if that is a
// name for an object of Kubernetes. Otherwise it begins with x- and ends with a digest of the name. So
// no two elections have the same Lease.
func (n naming) election(name string) string {
	if len(n.prefix)+len(name) <= 200 && subdomain(name) &&
		!strings.HasPrefix(name, "x-") && !strings.HasPrefix(name, reserved) {
		return n.prefix + name
	}
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(clean.Text(name, 40, false)))
	sum := sha256.Sum256([]byte(name))
	return n.prefix + "x-" + strings.Trim(readable, "-") + "-" + hex.EncodeToString(sum[:16])
}

// subdomain reports whether Kubernetes accepts the name: lower-case letters, digits, - and ., and each
// part begins and ends with a letter or digit.
func subdomain(name string) bool { return validation.IsDNS1123Subdomain(name) == nil }
