package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pairs returns the pages that are there in both languages: English, Chinese.
func pairs(t *testing.T) map[string]string {
	t.Helper()
	all, found := pages(t), map[string]string{}
	for page := range all {
		if english, ok := strings.CutSuffix(page, ".zh-CN.md"); ok {
			if found[english+".md"] = page; all[english+".md"] == "" {
				t.Errorf("%s is there in Chinese alone", page)
			}
		}
	}
	if len(found) < 6 {
		t.Fatalf("only %d pairs found", len(found))
	}
	return found
}

// A form is what two pages of the same content have in common whatever their words and
// the order of their sections, each list in order.
type form struct {
	headings []string // by their depth
	tables   []int    // by their rows
	fences   []string // by their languages
}

func formOf(text string) (f form) {
	rows, inside := 0, false
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimSpace(line)
		if language, ok := strings.CutPrefix(line, "```"); ok {
			if inside = !inside; inside {
				f.fences = append(f.fences, language)
			}
		} else if inside {
			continue
		}
		if m := regexp.MustCompile(`^(#+) `).FindStringSubmatch(line); m != nil {
			f.headings = append(f.headings, m[1])
		}
		if strings.HasPrefix(line, "|") {
			rows++
		} else if rows > 0 {
			f.tables, rows = append(f.tables, rows), 0
		}
	}
	slices.Sort(f.headings)
	slices.Sort(f.tables)
	slices.Sort(f.fences)
	return f
}

func TestAPageInChineseHasWhatTheEnglishOneHas(t *testing.T) {
	all := pages(t)
	for english, chinese := range pairs(t) {
		en, zh := formOf(all[english]), formOf(all[chinese])
		if !slices.Equal(en.headings, zh.headings) {
			t.Errorf("%s has the headings %v, %s has %v", english, en.headings, chinese, zh.headings)
		}
		if !slices.Equal(en.tables, zh.tables) {
			t.Errorf("%s has tables of %v rows, %s of %v", english, en.tables, chinese, zh.tables)
		}
		if !slices.Equal(en.fences, zh.fences) {
			t.Errorf("%s has the blocks %q, %s has %q", english, en.fences, chinese, zh.fences)
		}
	}
}

// A link leads to the same page, or to that page in Chinese.
func TestAPageInChineseLinksToWhatTheEnglishOneLinksTo(t *testing.T) {
	all := pages(t)
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	targets := func(page string) map[string]bool {
		found := map[string]bool{}
		for _, m := range link.FindAllStringSubmatch(all[page], -1) {
			found[strings.ReplaceAll(m[1], ".zh-CN.md", ".md")] = true
		}
		return found
	}
	for english, chinese := range pairs(t) {
		there := targets(chinese)
		for target := range targets(english) {
			if !there[target] {
				t.Errorf("%s links to %s, %s does not", english, target, chinese)
			}
		}
	}
}

// Who leads is called 主 on all pages in Chinese; other words are those of other systems
// and of code.
func TestPagesInChineseHaveOneWordForTheLeader(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	other := regexp.MustCompile(`(?i)\bleaders?\b|领导|领袖`)
	all := pages(t)
	for _, page := range pairs(t) {
		for line := range strings.Lines(code.ReplaceAllString(all[page], "")) {
			if word := other.FindString(line); word != "" {
				t.Errorf("%s has %q, not 主: %s", page, word, line)
			}
		}
	}
}
