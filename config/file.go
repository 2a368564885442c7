package config

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parse returns the root of a YAML text, without aliases, anchors and tags; nil: the text is empty.
func parse(source string, text []byte) (root *yaml.Node, p problems) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := decode(d, &doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if err = decode(d, &more); err == nil {
			p.add(place{source, more.Line}, "", "a second document begins here; only one is allowed")
			return nil, p
		}
	}
	if !errors.Is(err, io.EOF) {
		line, problem := syntaxError(err)
		p.add(place{source, line}, "", "%s", problem)
		return nil, p
	}
	checkPlain(source, doc.Content[0], &p)
	return doc.Content[0], p
}

// decode reads one document. The parser panics on some texts; no text may end the program.
func decode(d *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("this is not YAML")
		}
	}()
	return d.Decode(into)
}

var lineOf = regexp.MustCompile(`^line (\d+): `)

// syntaxError describes an error of the parser and returns its line, without the text.
func syntaxError(err error) (line int, problem string) {
	problem = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := lineOf.FindStringSubmatch(problem); m != nil {
		line, _ = strconv.Atoi(m[1])
		problem = problem[len(m[0]):]
	}
	if strings.HasPrefix(problem, "unknown anchor") { // it quotes the value, which may be a password
		return line, "a value begins with *, which means an alias in YAML; put the value in quotes"
	}
	problem = strings.Replace(problem, "that cannot", "(a tab, @, ` or %) that cannot", 1)
	return line, "not YAML: " + problem
}

// checkPlain refuses features of YAML that a configuration of a few dozen lines does
// not need, or that make a small text large, and keys that appear twice. It shows no values:
// a password may begin with any of these characters.
func checkPlain(source string, n *yaml.Node, p *problems) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		p.add(place{source, n.Line}, "",
			"aliases (*name), anchors (&name) and tags (!name) are not allowed; a value goes in quotes")
	}
	first := map[string]int{}
	for k := range pairs(n) {
		switch {
		case k.Kind != yaml.ScalarNode:
			p.add(place{source, k.Line}, "", "a key must be a word; this one is %s", kindOf(k))
		case first[k.Value] > 0:
			p.add(place{source, k.Line}, "", "the key %s appears a second time; the first is on line %d",
				showKey(k.Value), first[k.Value])
		}
		first[k.Value] = k.Line
	}
	for _, c := range n.Content {
		checkPlain(source, c, p)
	}
}

// pairs returns the keys and values of a mapping. Any other node has none.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(k, v *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for pair := range slices.Chunk(n.Content, 2) {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}

func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

func kindOf(n *yaml.Node) string {
	switch {
	case isNull(n):
		return "empty"
	case n.Kind == yaml.MappingNode:
		return "a section with keys"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}
