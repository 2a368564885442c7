// Package browser_test tests the status page of package electionhttp in Chromium.
//
// With -shots DIR it saves screenshots to DIR.
package browser_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
)

var shots = flag.String("shots", "", "save screenshots to this directory")

// timeout is how long one tab may take on a busy machine.
const timeout = 3 * time.Minute

// browser starts Chromium, once for all tests.
var browser = sync.OnceValues(func() (context.Context, error) {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, nil
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(timeout), chromedp.Flag("hide-scrollbars", true))
	ctx, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(ctx, chromedp.WithBrowserOption(chromedp.WithDialTimeout(timeout)),
		chromedp.WithErrorf(func(string, ...any) {})) // chromedp logs messages of Chromium that it does not know
	endBrowser = end
	return ctx, chromedp.Run(ctx)
})

var endBrowser = func() {}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	endBrowser()
	os.Exit(code)
}

// A tab is one page in the browser. Errors and warnings in it fail the test.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// open opens an address on a screen of this size. Errors and warnings of the browser fail
// the test, except those that contain a text in expected.
func open(t *testing.T, url string, width, height int, dark bool, expected ...string) *tab {
	t.Helper()
	parent, err := browser()
	if err != nil {
		t.Fatalf("Chromium does not start: %v", err)
	}
	if parent == nil {
		if os.Getuid() == 0 {
			t.Fatal("MISSING: Chromium: run \"make deps\"")
		}
		t.Skip("CHROMIUM IS MISSING: THE PAGE WAS NOT TESTED")
	}
	ctx, cancel := chromedp.NewContext(parent)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, timeout)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, b.listen)
	scheme := map[bool]string{false: "light", true: "dark"}[dark]
	b.run("open "+url,
		emulation.SetDeviceMetricsOverride(int64(width), int64(height), 1, width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.Navigate(url))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			if !slices.ContainsFunc(expected, func(e string) bool { return strings.Contains(p, e) }) {
				t.Errorf("the browser reports: %s", p)
			}
		}
	})
	return b
}

func (b *tab) listen(ev any) {
	var problem string
	switch ev := ev.(type) {
	case *page.EventJavascriptDialogOpening:
		problem = "a script has opened a dialog: " + ev.Message
		go chromedp.Run(b.ctx, page.HandleJavaScriptDialog(false)) // Run must not block the goroutine that delivers events
	case *runtime.EventExceptionThrown:
		problem = "exception: " + ev.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if ev.Type != runtime.APITypeError && ev.Type != runtime.APITypeWarning && ev.Type != runtime.APITypeAssert {
			return
		}
		problem = "console: "
		for _, a := range ev.Args {
			problem += string(a.Value) + a.Description
		}
	case *log.EventEntryAdded: // includes violations of the Content-Security-Policy
		if ev.Entry.Level != log.LevelError && ev.Entry.Level != log.LevelWarning {
			return
		}
		if strings.Contains(ev.Entry.Text, "net::ERR_NETWORK_CHANGED") {
			return // another test has made or removed a network interface of this machine; the page asks again
		}
		problem = ev.Entry.Text + " " + ev.Entry.URL
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, problem)
}

func (b *tab) run(what string, actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// until waits for a JavaScript expression to be true. It polls, because the page's
// Content-Security-Policy allows no script that would notify the test.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ok := false; ; {
		b.run("waiting until "+what, chromedp.Evaluate("!!("+expression+")", &ok))
		if ok {
			return
		}
		select {
		case <-again.C:
		case <-b.ctx.Done():
			b.t.Fatalf("waiting until %s: %v", what, b.ctx.Err())
		}
	}
}

func (b *tab) says(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%s says %q", selector, text), fmt.Sprintf("document.querySelector(%q) && document.querySelector(%q).innerText.includes(%q)", selector, selector, text))
}

func (b *tab) check(what, expression string) {
	b.t.Helper()
	var ok bool
	b.run(what, chromedp.Evaluate("!!("+expression+")", &ok))
	if !ok {
		b.t.Errorf("this does not hold: %s", what)
	}
}

func (b *tab) shoot(name string) {
	if *shots == "" {
		return
	}
	var png []byte
	b.run("take a screenshot", chromedp.CaptureScreenshot(&png))
	noError(b.t, os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o644))
}

// A site is a page that one of several managers on a store serves.
type site struct {
	url     string
	server  *httptest.Server
	handler *electionhttp.Handler
}

// manager starts a manager. If ttl is 0, it uses a TTL that no busy machine misses.
func manager(t *testing.T, b backend.Backend, ttl time.Duration, id, address string) *election.Manager {
	t.Helper()
	m, err := election.New(b, election.Options{ID: id, Address: address, TTL: cmp.Or(ttl, 30*time.Second)})
	noError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond) // no other process waits for the leases
		defer cancel()
		m.Close(ctx)
	})
	return m
}

// lead makes a manager campaign, and waits until it leads.
func lead(t *testing.T, m *election.Manager, names ...string) {
	t.Helper()
	for _, name := range names {
		e := join(t, m, name)[0]
		if _, err := e.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func join(t *testing.T, m *election.Manager, names ...string) (list []*election.Election) {
	t.Helper()
	for _, name := range names {
		e, err := m.Join(name)
		noError(t, err)
		list = append(list, e)
	}
	return list
}

func serve(t *testing.T, m *election.Manager, o electionhttp.Options) *site {
	t.Helper()
	h, err := electionhttp.New(m, o)
	noError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/ops/election/", http.StripPrefix("/ops/election", h))
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		h.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return &site{server.URL + "/ops/election", server, h} // without the final slash: ServeMux redirects
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func everybody(*http.Request, electionhttp.Action) error { return nil }
