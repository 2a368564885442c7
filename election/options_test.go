package election

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

func TestImpossibleOptionsAreReportedWithBothValues(t *testing.T) {
	g := backend.Guarantees{Name: "test", MinTTL: time.Second, MaxTTL: time.Minute, MaxSession: 100 * time.Second, ClockMargin: 100 * time.Millisecond}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{TTL: 500 * time.Millisecond}, "TTL is 500ms, the least that backend test can keep is 1s"},
		{Options{TTL: time.Hour}, "TTL is 1h0m0s, the greatest that backend test can keep is 1m0s"},
		{Options{TTL: -1}, "TTL is -1ns, must be at least 1ns"},
		{Options{TTL: 9 * time.Second, RenewEvery: 6 * time.Second}, "must be less than TTL = 9s"},
		{Options{CallTimeout: 6 * time.Second}, "= 3.333s + 6s + 1.667s = 11s, must be less than TTL = 10s"},
		{Options{TTL: time.Minute, RenewEvery: 21 * time.Second}, "TTL + 2 * RenewEvery = 1m0s + 2 * 21s = 1m42s, must be 1m40s at most on backend test"},
		{Options{TTL: 9 * time.Second, ClockMargin: time.Millisecond}, "ClockMargin is 1ms, must be at least 450ms"},
		{Options{TTL: time.Second, ClockMargin: 60 * time.Millisecond}, "ClockMargin is 60ms, backend test needs at least 100ms"},
		{Options{ID: "a\nb"}, "control character"},
		{Options{FailoverDelay: -time.Second}, "FailoverDelay is -1s, must be at least 0s"},
	} {
		_, err := c.o.Complete(g)
		if backend.Class(err) != backend.ErrInvalid || !contains(err, c.want) {
			t.Errorf("%+v: got %v, want an invalid error with %q", c.o, err, c.want)
		}
	}
}

// Package config reports options by the names of their keys.
func TestOptionErrorsCanUseOtherNames(t *testing.T) {
	o := Options{TTL: 9 * time.Second, RenewEvery: 6 * time.Second}
	_, err := o.Complete(backend.Guarantees{MinTTL: 1})
	wrong, ok := errors.AsType[*OptionError](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	if got := wrong.Options(); !slices.Equal(got, []string{"RenewEvery", "CallTimeout", "ClockMargin", "TTL"}) {
		t.Errorf("it is about %q", got)
	}
	want := "renewevery + calltimeout + clockmargin = 6s + 2.25s + 1.5s = 9.75s, must be less than ttl = 9s"
	if got := wrong.Text(strings.ToLower); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
