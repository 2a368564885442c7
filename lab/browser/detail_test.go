package browser_test

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
)

type located struct{ backend.Backend }

func (located) Location() string { return "db1:3306/app" }

func observer(t *testing.T, b backend.Backend, names ...string) *election.Manager {
	t.Helper()
	m, err := election.New(b, election.Options{Observer: true})
	noError(t, err)
	t.Cleanup(func() { m.Close(t.Context()) })
	join(t, m, names...)
	return m
}

func TestTheDetailShowsAndNominatesStandbys(t *testing.T) {
	store := memory.New()
	a := manager(t, store.Backend(), 6*time.Second, "web-1.example", "10.0.4.11:8080") // a short TTL: the leader reads requests when it renews
	noError(t, join(t, a, "jobs")[0].Lead(nil))
	s := serve(t, a, electionhttp.Options{Authorize: everybody})
	everyScreen(t, s.url, func(p *tab, name string) {
		p.says("#verdict", "web-1.example leads jobs")
		p.run("open the election", chromedp.Click("#rows .name"))
		p.says("#detail .alone", "No standby: if this leader fails, no process takes over")
		p.check("there is no candidate to nominate", "!document.querySelector('#candidates button')")
		p.fits()
		p.shoot("alone-" + name)
	})
	b := manager(t, store.Backend(), 6*time.Second, "web-2.example", "10.0.4.12:8080")
	noError(t, join(t, b, "jobs")[0].Lead(nil))
	everyScreen(t, s.url, func(p *tab, name string) {
		p.says("#verdict", "web-1.example leads jobs")
		p.run("open the election", chromedp.Click("#rows .name"))
		p.says("#detail", "Candidates")
		p.says("#candidates li:first-child", "leads")
		p.says("#candidates li:nth-child(2)", "10.0.4.12:8080")
		p.check("the page does not warn of a missing standby", "!document.querySelector('#detail .alone')")
		p.fits()
		p.shoot("standby-" + name)
	})
	p := open(t, s.url, 1280, 900, false)
	p.says("#verdict", "web-1.example leads jobs")
	p.run("open the election", chromedp.Click("#rows .name"))
	p.says("#candidates", "web-2.example")
	p.run("go to Nominate", chromedp.Focus("#candidates button"))
	p.check("the button's label names the nominee", "document.activeElement.getAttribute('aria-label') === 'Nominate web-2.example'")
	p.run("press Nominate", chromedp.KeyEvent(kb.Enter))
	p.says("#confirm", "Nominate web-2.example?")
	p.run("confirm the nomination", chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	p.says("#verdict", "web-2.example leads jobs")
}

func TestTheHistoryShowsEndsAndGaps(t *testing.T) {
	store := memory.New()
	a, b := manager(t, store.Backend(), 6*time.Second, "a", ""), manager(t, store.Backend(), 6*time.Second, "b", "")
	ea, eb := join(t, a, "jobs")[0], join(t, b, "jobs")[0]
	first, err := ea.Campaign(t.Context())
	noError(t, err)
	p := open(t, serve(t, b, electionhttp.Options{}).url, 1280, 900, false)
	p.says("#verdict", "a leads jobs")
	noError(t, first.Resign(t.Context()))
	p.says("#verdict", "jobs has no leader")
	p.run("open the election", chromedp.Click("#rows .name"))
	p.says("#detail .leaderships", "stepped down")
	p.check("the list has no numbers", "getComputedStyle(document.querySelector('#detail .leaderships')).listStyleType === 'none'")
	p.shoot("history")
	p.says("#detail .gap", "no leader now, for") // after a second
	noError(t, eb.Lead(nil))
	p.says("#detail .gap", "no leader for")
	noError(t, eb.Depose(t.Context()))
	p.says("#detail .leaderships", "was deposed by an operator")
}

func TestTheHeadShowsStoreAndTimeZone(t *testing.T) {
	a := manager(t, located{memory.New().Backend()}, 3*time.Second, "a", "")
	lead(t, a, "jobs")
	s := serve(t, a, electionhttp.Options{})
	p := open(t, s.url, 375, 812, false)
	p.run("set the time zone of Kolkata", emulation.SetTimezoneOverride("Asia/Kolkata"), chromedp.Reload())
	p.says("#place", "memory db1:3306/app")
	p.says("#zone", "local times (UTC+5:30)")
	p.until("the title of a time shows the zone", "document.querySelector('#rows time').title.includes('UTC+5:30')")
	p.run("set the time zone UTC", emulation.SetTimezoneOverride("UTC"), chromedp.Reload())
	p.says("#zone", "times in UTC")
	p.fits()
	p.shoot("head-375")
}

func TestAnObserversPageShowsNoOwnState(t *testing.T) {
	store := memory.New()
	a := manager(t, store.Backend(), 0, "web-1.example", "10.0.4.11:8080")
	lead(t, a, "z/job")
	s := serve(t, observer(t, store.Backend(), "a/never", "b/never", "z/job"), electionhttp.Options{})
	everyScreen(t, s.url, func(p *tab, name string) {
		p.says("#verdict", "The one election in use has a leader")
		p.says("#verdict", "2 elections are idle")
		p.says("#rows li:first-child", "z/job")
		p.says("#rows li:nth-child(2)", "no leader so far")
		p.check("an observer has no tiles about itself", "!document.querySelector('.tile[data-state=here], .tile[data-state=paused]')")
		p.check("an observer's page does not say elsewhere", "!document.querySelector('#rows').innerText.includes('elsewhere')")
		p.fits()
		p.shoot("observer-" + name)
	})
}
