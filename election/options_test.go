package election

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/electionguard"
)

func TestABadOptionIsReportedByFieldsAndText(t *testing.T) {
	g := backend.Guarantees{Name: "test", MinTTL: time.Second, MaxTTL: time.Minute}
	const ms = time.Millisecond
	for _, c := range []struct {
		o      Options
		option string
		value  any
		must   string
		bound  time.Duration
		text   string
	}{
		{Options{TTL: 500 * ms}, "TTL", 500 * ms, "at least", time.Second, "TTL is 500ms, must be at least 1s: a limit of backend test"},
		{Options{TTL: time.Hour}, "TTL", time.Hour, "at most", time.Minute, "TTL is 1h0m0s, must be at most 1m0s: a limit of backend test"},
		{Options{TTL: -1}, "TTL", time.Duration(-1), "at least", 1, "TTL is -1ns, must be at least 0s"},
		{Options{TTL: 9 * time.Second, RenewEvery: 6 * time.Second}, "TTL", 9 * time.Second, "more than", 9750 * ms,
			"TTL is 9s, must be more than 9.75s: RenewEvery + CallTimeout + ClockMargin = 6s + 2.25s + 1.5s"},
		{Options{TTL: 9 * time.Second, CallTimeout: 6 * time.Second}, "TTL", 9 * time.Second, "more than", 10500 * ms, "= 3s + 6s + 1.5s"},
		{Options{TTL: 9 * time.Second, ClockMargin: ms}, "ClockMargin", ms, "at least", 450 * ms, "ClockMargin is 1ms, must be at least 450ms: a twentieth of TTL"},
		{Options{FailoverDelay: -time.Second}, "FailoverDelay", -time.Second, "at least", 0, "FailoverDelay is -1s, must be at least 0s"},
		{Options{StepDownTimeout: math.MaxInt64}, "StepDownTimeout", time.Duration(math.MaxInt64), "at most", maxDuration / 20, "must be at most 8760h0m0s"},
		{Options{Reclaim: time.Second, TTL: 9 * time.Second}, "Reclaim", time.Second, "at least", 9 * time.Second, "Reclaim is 1s, must be at least 9s: TTL, or 0 for never"},
		{Options{Priority: -1}, "Priority", -1, "", 0, "Priority is -1, must be 0 to 2147483647"},
		{Options{ID: "a\nb"}, "ID", "a\nb", "", 0, `ID contains the control character U+000A: "a\nb"`},
		{Options{Address: strings.Repeat("a", 256)}, "Address", strings.Repeat("a", 256), "", 0, "Address has 256 bytes, at most 255 are allowed"},
		{Options{Metadata: "\xff"}, "Metadata", "\xff", "", 0, `Metadata is not valid UTF-8: "\xff"`},
	} {
		_, err := c.o.Complete(g)
		e, ok := errors.AsType[*OptionError](err)
		if !ok || !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%+v: %T %v, want an OptionError of class ErrInvalid", c.o, err, err)
			continue
		}
		if e.Option != c.option || e.Value != c.value || e.Must != c.must || e.Bound != c.bound {
			t.Errorf("%+v: the fields are %#v", c.o, e)
		}
		if !contains(err, "invalid request: option "+c.option) || !contains(err, c.text) {
			t.Errorf("%+v: got  %v\nwant %s", c.o, err, c.text)
		}
	}
}

// Package config reports options by the names of their keys.
func TestOptionErrorsCanUseOtherNames(t *testing.T) {
	e := OptionError{"TTL", 9 * time.Second, "more than", 9750 * time.Millisecond, "RenewEvery + CallTimeout"}
	if got, want := e.Text(strings.ToLower), "ttl is 9s, must be more than 9.75s: renewevery + calltimeout"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A guard is this program, started again: without the first line of main it would be a second candidate.
func TestAGuardNeedsTheFirstLineOfMain(t *testing.T) {
	if _, err := electionguard.Start(electionguard.Options{}); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Start without Main: %v, want %v", err, backend.ErrInvalid)
	}
}
