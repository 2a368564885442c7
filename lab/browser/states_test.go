package browser_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
)

// everyScreen opens a page in light and dark, on a wide screen and on a phone.
func everyScreen(t *testing.T, url string, test func(p *tab, name string)) {
	for width, height := range map[int]int{1280: 900, 375: 812} {
		for scheme, dark := range map[string]bool{"light": false, "dark": true} {
			name := fmt.Sprintf("%s-%d", scheme, width)
			t.Run(name, func(t *testing.T) { test(open(t, url, width, height, dark), name) })
		}
	}
}

// fits checks what must hold on every screen.
func (b *tab) fits() {
	b.t.Helper()
	b.until("no element is wider than the screen", "document.documentElement.scrollWidth <= window.innerWidth")
	b.until("the verdict is on the first screen", "document.querySelector('#verdict').getBoundingClientRect().bottom < window.innerHeight / 2")
	b.until("text has enough contrast", contrast)
}

// contrast compares the colour of each text with its background: WCAG 2 requires 4.5 to 1.
const contrast = `(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colours) => { canvas.clearRect(0, 0, 1, 1); for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); } return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  for (const el of document.querySelectorAll("body *")) {
    if (![...el.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || el.closest(".offline .columns, noscript, .skip, :disabled") || !el.getClientRects().length) continue;
    const back = [];
    for (let up = el; up; up = up.parentElement) back.unshift(getComputedStyle(up).backgroundColor);
    const a = light(rgb(["white", ...back])), b = light(rgb(["white", ...back, getComputedStyle(el).color]));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) throw new Error("contrast " + ratio.toFixed(2) + " of " + el.tagName + "." + el.className + ": " + el.textContent.slice(0, 40));
  }
  return true;
})()`

func TestTheVerdictSaysThatAllHaveALeader(t *testing.T) {
	store := memory.New()
	a, b := manager(t, store.Backend(), 0, "web-1.example", "10.0.4.11:8080"), manager(t, store.Backend(), 0, "web-2.example", "10.0.4.12:8080")
	mine, others := []string{"billing/nightly", "mail/digest", "search/indexer"}, []string{"billing/invoices", "cache/warmer", "reports/weekly"}
	lead(t, a, mine...)
	lead(t, b, others...)
	for _, standby := range append(join(t, a, others...), join(t, b, mine...)...) {
		noError(t, standby.Lead(nil))
	}
	s := serve(t, a, electionhttp.Options{Authorize: everybody})
	everyScreen(t, s.url, func(p *tab, name string) {
		p.says("#verdict", "All 6 elections have a leader")
		p.says("#verdict", "No problems. This process leads 3, web-2.example leads 3.")
		p.says("#live", "Live")
		p.says("#rows", "10.0.4.12:8080")
		p.says("#store-text", "memory answers")
		p.check("screen readers announce the verdict", "document.querySelector('#verdict').getAttribute('aria-live') === 'polite'")
		p.fits()
		p.shoot("well-" + name)
		p.run("open one election", chromedp.Click("#rows .name"))
		p.says("#detail", "Past leaderships")
		p.fits()
		p.shoot("detail-" + name)
	})
}

func TestProblemsComeFirst(t *testing.T) {
	store := memory.New()
	away := store.Backend()
	a, b := manager(t, away, 20*time.Second, "web-1.example", "10.0.4.11:8080"), manager(t, store.Backend(), 0, "web-2.example", "10.0.4.12:8080")
	lead(t, b, "billing/nightly", "billing/invoices", "reports/weekly")
	noError(t, b.Election("reports/weekly").Leadership().Resign(t.Context()))
	lead(t, a, "mail/digest")
	join(t, a, "billing/nightly", "billing/invoices")
	lead(t, b, "zoo/keeper")
	for _, e := range join(t, a, "reports/weekly", "zoo/keeper") {
		e.Pause() // an election without candidates would be idle
	}
	s := serve(t, a, electionhttp.Options{})
	everyScreen(t, s.url, func(p *tab, name string) {
		p.says("#verdict", "reports/weekly has no leader")
		p.says("#rows li:first-child", "No leader")
		p.says("#rows li:nth-child(2)", "paused here")
		p.fits()
		p.shoot("vacant-" + name)
	})

	p := open(t, s.url, 1280, 900, false)
	p.says("#verdict", "reports/weekly has no leader")
	away.Close() // from now on the store does not answer
	p.says("#verdict", "Calls to the store fail")
	p.says("#verdict", "The store cannot be reached")
	p.says("#store-text", "cannot be reached")
	p.says("#rows", "Unknown")
	p.until("the page's title has the same text", "document.title.startsWith('⚠ The store cannot be reached')")
	everyScreen(t, s.url, func(p *tab, name string) {
		p.says("#verdict", "The store cannot be reached")
		p.says("#rows", "last known: web-2.example")
		p.fits()
		p.shoot("away-" + name)
	})
}

// Each election without a standby is counted and can be found, and each has an address.
func TestElectionsWithoutAStandbyAreFound(t *testing.T) {
	store := memory.New()
	a, b := manager(t, store.Backend(), 0, "web-1.example", ""), manager(t, store.Backend(), 0, "web-2.example", "")
	lead(t, a, "billing/nightly", "mail/digest")
	noError(t, join(t, b, "mail/digest")[0].Lead(nil))
	s := serve(t, a, electionhttp.Options{})
	p := open(t, s.url, 1280, 900, false)
	p.says("#verdict", "1 election has no standby")
	p.says("#rows li:first-child", "no standby")
	p.run("show only those", chromedp.Click("#tiles [data-state=alone]"))
	p.says("#count", "1 of 2 elections")
	p.check("no state that this process has found at its start is shown as a change", "!document.querySelector('#changes').innerText.includes('already')")

	p.run("open the election", chromedp.Click("#rows .name"))
	p.says("#detail", "No standby")
	p.until("the address names it", "window.location.hash === '#election/billing%2Fnightly'")
	other := open(t, s.url+"#election/mail%2Fdigest", 1280, 900, false)
	other.says("#detail", "mail/digest")
}

func TestAStoreWithoutAnyLeaderIsRed(t *testing.T) {
	store := memory.New()
	a := manager(t, store.Backend(), 0, "web-1.example", "")
	for _, e := range join(t, a, "billing/nightly", "mail/digest") {
		e.Pause() // else they would be idle
		noError(t, e.Lead(nil))
	}
	p := open(t, serve(t, a, electionhttp.Options{}).url, 1280, 900, false)
	p.says("#verdict", "None of the 2 elections has a leader")
	p.until("the verdict is red", "document.querySelector('#verdict').dataset.level === 'bad'")
}

func TestAChangeShowsWithoutReloading(t *testing.T) {
	store := memory.New()
	a, b := manager(t, store.Backend(), 0, "a", ""), manager(t, store.Backend(), 0, "b", "")
	ea, eb := join(t, a, "jobs")[0], join(t, b, "jobs")[0]
	first, err := ea.Campaign(t.Context())
	noError(t, err)
	s := serve(t, b, electionhttp.Options{})
	p := open(t, s.url, 1280, 900, false, "ERR_", "Failed to load resource") // the server is closed at the end
	p.says("#verdict", "a leads jobs")
	p.says("#live", "Live")
	p.run("mark the document", chromedp.Evaluate("window.marked = true", nil))
	noError(t, first.Resign(t.Context()))
	p.says("#verdict", "jobs has no leader")
	began := time.Now()
	noError(t, eb.Lead(nil))
	p.says("#verdict", "b leads jobs")
	t.Logf("the page shows the new leader %v after Lead", time.Since(began).Round(time.Millisecond))
	p.says("#rows", "Leading here")
	p.says("#changes li:first-child", "b (this process) leads jobs")
	p.says("#changes", "jobs lost its leader")
	p.check("the document is still the same", "window.marked")
	s.handler.Close()
	p.says("#verdict", "This page cannot reach its process")
}

func TestHostileTextHasNoEffect(t *testing.T) {
	const evil = `</script><script>alert(1)</script><img src=x onerror=alert(2)>`
	store := memory.New()
	a := manager(t, store.Backend(), 0, "a", "")
	join(t, a, evil, `{{constructor.constructor('alert(3)')()}}`)
	b := store.Backend()
	who := backend.Candidate{ID: evil + `" onmouseover="alert(4)`, Nonce: backend.NewNonce(), Address: "javascript:alert(5)", Metadata: `<svg onload=alert(6)>`}
	standby := who
	standby.ID, standby.Nonce = who.ID+"2", backend.NewNonce()
	for c, b := range map[backend.Candidate]backend.Backend{who: b, standby: store.Backend()} {
		if err := b.Announce(t.Context(), backend.Member{Candidate: c, Elections: backend.ElectionList(0, slices.Values([]string{evil})), TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	win := func(name string) {
		seen, err := b.Observe(t.Context(), []backend.Lease{{Election: name}})
		noError(t, err)
		if _, err := b.Acquire(t.Context(), []backend.Bid{{Election: name, Candidate: who, TTL: time.Hour, Renew: time.Hour, Expected: seen[0]}}); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, a, electionhttp.Options{Authorize: everybody, Details: true})
	p := open(t, s.url, 375, 812, true)
	p.says("#rows", evil) // the page lists later changes
	win(evil)
	p.says("#rows", "javascript:alert(5)")
	p.says("#changes", "onmouseover")
	p.fits()
	p.run("open the election", chromedp.Evaluate("[...document.querySelectorAll('#rows .name')].find((b) => b.innerText.includes('<img')).click()", nil))
	p.says("#detail", "<svg onload=alert(6)>")
	p.until("the page offers to nominate a member", "document.querySelector('#candidates button')")
	p.check("no part of the text has become an element or attribute", "!document.querySelector('img, [onmouseover], [onerror], a[href^=javascript]')")
	p.shoot("hostile")
}

func TestTheKeyboardIsEnough(t *testing.T) {
	store := memory.New()
	a, b := manager(t, store.Backend(), 0, "a", ""), manager(t, store.Backend(), 0, "b", "")
	ea, eb := join(t, a, "jobs")[0], join(t, b, "jobs")[0]
	noError(t, ea.Lead(nil))
	s := serve(t, a, electionhttp.Options{Authorize: everybody})
	p := open(t, s.url, 1280, 900, false)
	p.says("#verdict", "a leads jobs")
	noError(t, eb.Lead(nil))
	press := func(key, what, expression string) {
		t.Helper()
		p.run("press "+what, chromedp.KeyEvent(key))
		p.until("after that "+what, expression)
	}
	p.run("go to the election", chromedp.Focus("#rows .name"))
	press(kb.Enter, "the election is open", "document.querySelector('#detail').open && document.querySelector('#detail .actions')")
	press(kb.Escape, "the election is closed", "!document.querySelector('#detail').open")
	p.until("the focus is where it was", "document.activeElement.classList.contains('name')")
	press(kb.Enter, "the election is open", "document.querySelector('#detail .actions')")
	p.run("go to Resign", chromedp.Evaluate("[...document.querySelectorAll('#detail button')].find((b) => b.innerText === 'Resign').focus()", nil))
	press(kb.Enter, "the page asks for confirmation", "document.querySelector('#confirm').open")
	p.until("the focus is on Cancel", "document.activeElement.innerText === 'Cancel'")
	p.shoot("confirm")
	press(kb.Tab, "the focus is on the action", "document.activeElement.innerText === 'Resign'")
	press(kb.Enter, "the dialog is closed", "!document.querySelector('#confirm').open")
	p.says("#verdict", "b leads jobs")
	p.says("#detail", "b")
	press(kb.Escape, "the election is closed", "!document.querySelector('#detail').open")
	p.run("go to Pause", chromedp.Focus("#pause"))
	press(kb.Enter, "the page asks for confirmation", "document.querySelector('#confirm').open")
	press(kb.Tab, "the focus is on the action", "document.activeElement.innerText === 'Pause'")
	press(kb.Enter, "the dialog is closed", "!document.querySelector('#confirm').open")
	p.says("#verdict", "This process is paused")
	p.says("#pause", "Resume")
}

func TestAThousandElectionsStayUsable(t *testing.T) {
	store := memory.New()
	a, b := manager(t, store.Backend(), 0, "web-1.example", "10.0.4.11:8080"), manager(t, store.Backend(), 0, "web-2.example", "10.0.4.12:8080")
	for i := range 1000 {
		name := fmt.Sprintf("tenant-%04d/billing", i)
		for _, e := range append(join(t, a, name), join(t, b, name)...) {
			noError(t, e.Lead(nil))
		}
	}
	for _, m := range []*election.Manager{a, b} { // no process leads this election
		m.Election("tenant-0777/billing").Pause()
	}
	s := serve(t, a, electionhttp.Options{})
	for _, width := range []int{1280, 375} {
		p := open(t, s.url, width, 900, width < 500)
		p.says("#verdict", "tenant-0777/billing has no leader")
		p.until("the election without a leader comes first of 50 rows", "document.querySelectorAll('#rows li').length === 50 && document.querySelector('#rows li').innerText.includes('0777')")
		p.says("#where", "1–50 of 1,000")
		p.fits()
		p.shoot(fmt.Sprintf("many-%d", width))
		p.run("search", chromedp.SendKeys("#search", "0042"))
		p.says("#count", "1 of 1,000 elections")
		p.says("#rows", "tenant-0042/billing")
		p.until("one row is left", "document.querySelectorAll('#rows li').length === 1")
	}
}
