package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pairs maps English pages to their Chinese versions.
func pairs(t *testing.T) map[string]string {
	t.Helper()
	all, found := pages(t), map[string]string{}
	for page := range all {
		if english, ok := strings.CutSuffix(page, ".zh-CN.md"); ok {
			if found[english+".md"] = page; all[english+".md"] == "" {
				t.Errorf("%s has no English version", page)
			}
		}
	}
	if len(found) < 6 {
		t.Fatalf("only %d pairs found", len(found))
	}
	return found
}

// An outline is what two pages of the same content have in common, whatever their language and
// the order of their sections. Each list is sorted.
type outline struct {
	headings []string // the depth of each
	tables   []int    // the rows of each
	fences   []string // the language of each
}

func outlineOf(text string) (f outline) {
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

func TestChinesePagesHaveTheEnglishOutline(t *testing.T) {
	all := pages(t)
	for english, chinese := range pairs(t) {
		en, zh := outlineOf(all[english]), outlineOf(all[chinese])
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

// A Chinese page links to the pages that its English version links to, in either language.
func TestChinesePagesHaveTheEnglishLinks(t *testing.T) {
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

// Chinese pages call the leader 主. Other words occur only in code and in names of other systems.
func TestChinesePagesHaveOneWordForTheLeader(t *testing.T) {
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
