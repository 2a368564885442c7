//go:build linux

package chaos

import (
	"strings"
	"testing"

	"github.com/go-election/go-election/conformance"
)

func pageOf(t *testing.T, kept Figures, list ...*History) string {
	t.Helper()
	var b strings.Builder
	if err := WritePage(&b, kept, list); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestThePageIsSelfContainedAndEscapesText(t *testing.T) {
	h := good()
	h.Fault = `<script>alert("x")</script>`
	h.Bands[0].Name = `"><img src=x onerror=alert(1)>`
	for i := range h.Lines {
		if h.Lines[i].Process == "a1" {
			h.Lines[i].Process = `a</title><script>`
		}
	}
	var kept Figures
	kept.Add(h, true)
	text := pageOf(t, kept, h)
	for _, bad := range []string{"<script", "<img", "http://", "https://", "src=x onerror=alert(1)>"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

func TestThePageShowsLeadersFaultsAndOverlaps(t *testing.T) {
	h := good()
	var kept Figures
	kept.Add(h, false)
	text := pageOf(t, kept, h)
	for _, want := range []string{"a1 believed that it led billing in term 1", "kill -9 of a1", "mysql on MariaDB/kill -9/7", `class="bit"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text, `class="red"`) || strings.Contains(text, "Broken rules") {
		t.Error("the page shows two leaders although there was one")
	}
	h.find("a1", conformance.Believed, "").To = 5500 * ms
	text = pageOf(t, kept, h)
	for _, want := range []string{`class="red"`, "Broken rules", "two leaders for 500ms"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of two leaders lacks %q", want)
		}
	}
}
