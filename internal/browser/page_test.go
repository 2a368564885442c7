// Package browser_test looks at the page of package electionhttp in Chromium.
//
// With -shots DIR it leaves pictures there, for people to look at.
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

var shots = flag.String("shots", "", "leave pictures in this directory")

// patience is how long anything may take on a machine that is very busy.
const patience = 3 * time.Minute

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
		chromedp.WSURLReadTimeout(patience), chromedp.Flag("hide-scrollbars", true))
	ctx, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(ctx, chromedp.WithBrowserOption(chromedp.WithDialTimeout(patience)),
		chromedp.WithErrorf(func(string, ...any) {})) // it is older than Chromium, and says so
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

// A tab is one page in the browser. What goes wrong in it fails the test.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string
}

// open opens an address with a screen of this size. What the browser complains
// about fails the test, but for the texts in expected.
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
		t.Skip("CHROMIUM IS MISSING: THE PAGE WAS NOT LOOKED AT")
	}
	ctx, cancel := chromedp.NewContext(parent)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, patience)
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
	complaints:
		for _, w := range b.wrong {
			for _, e := range expected {
				if strings.Contains(w, e) {
					continue complaints
				}
			}
			t.Errorf("the browser complains: %s", w)
		}
	})
	return b
}

func (b *tab) listen(ev any) {
	var w string
	switch ev := ev.(type) {
	case *page.EventJavascriptDialogOpening:
		w = "a script has opened a dialog: " + ev.Message
		go chromedp.Run(b.ctx, page.HandleJavaScriptDialog(false)) // not on the goroutine that delivers events
	case *runtime.EventExceptionThrown:
		w = "exception: " + ev.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if ev.Type != runtime.APITypeError && ev.Type != runtime.APITypeWarning && ev.Type != runtime.APITypeAssert {
			return
		}
		w = "console: "
		for _, a := range ev.Args {
			w += string(a.Value) + a.Description
		}
	case *log.EventEntryAdded: // refusals of the Content-Security-Policy among them
		if ev.Entry.Level != log.LevelError && ev.Entry.Level != log.LevelWarning {
			return
		}
		w = ev.Entry.Text + " " + ev.Entry.URL
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, w)
}

func (b *tab) run(what string, actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// until waits for a JavaScript expression to be true. It asks again and again: the
// page's policy lets nothing be added that would tell.
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

// says waits until what an element says contains a text.
func (b *tab) says(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%s says %q", selector, text), fmt.Sprintf("document.querySelector(%q) && document.querySelector(%q).innerText.includes(%q)", selector, selector, text))
}

// check wants a JavaScript expression to be true.
func (b *tab) check(what, expression string) {
	b.t.Helper()
	var ok bool
	b.run(what, chromedp.Evaluate("!!("+expression+")", &ok))
	if !ok {
		b.t.Errorf("it is not so that %s", what)
	}
}

func (b *tab) shoot(name string) {
	if *shots == "" {
		return
	}
	var png []byte
	b.run("take a picture", chromedp.CaptureScreenshot(&png))
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// A site is a page, served by one of several managers on a store.
type site struct {
	url     string
	server  *httptest.Server
	handler *electionhttp.Handler
}

// manager has a TTL that no busy machine misses, if ttl is 0.
func manager(t *testing.T, b backend.Backend, ttl time.Duration, id, address string) *election.Manager {
	t.Helper()
	m, err := election.New(b, &election.Options{ID: id, Address: address, TTL: cmp.Or(ttl, 30*time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond) // nobody is left who waits
		defer cancel()
		m.Close(ctx)
	})
	return m
}

// lead has a manager campaign, and waits until it leads.
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
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func serve(t *testing.T, m *election.Manager, o *electionhttp.Options) *site {
	t.Helper()
	h, err := electionhttp.New(m, o)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/election/", http.StripPrefix("/ops/election", h))
	mux.Handle("/ops/election", http.StripPrefix("/ops/election", h))
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		h.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return &site{server.URL + "/ops/election", server, h} // it must find the slash by itself
}

func everybody(*http.Request, electionhttp.Action) error { return nil }
