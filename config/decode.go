package config

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A decoder fills structs from a file and the environment, strictly.
type decoder struct {
	*input
	secrets bool // whether to read the files that hold secrets
	problems
	places map[string]place // where each value was found
	keys   []Key            // all keys of the structs, set or not
}

// input is a parsed file and the environment, before values are decoded.
type input struct {
	file    string
	text    []byte            // of the file
	root    *yaml.Node        // nil: the file is empty
	environ map[string]string // only variables with the prefix
}

func (in *input) decoder() *decoder { return &decoder{input: in, places: make(map[string]place)} }

func (in *input) section(name string) *yaml.Node {
	for k, v := range pairs(in.root) {
		if k.Value == name {
			return v
		}
	}
	return nil
}

// variable returns the environment variable of a key.
func variable(key string) string {
	return prefix + strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(key))
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	namedType    = reflect.TypeFor[backend.Named]()
)

// structure fills the fields of the struct v from the mapping n, which may be nil, and
// from the environment. n may also have the keys in others, which are not fields of v.
func (d *decoder) structure(path string, n *yaml.Node, v reflect.Value, others []string) {
	if !isNull(n) && n.Kind != yaml.MappingNode {
		such := ""
		if path == "" {
			such = `, such as "backend: mysql"`
		}
		d.add(place{d.file, n.Line}, path, "must be a section with keys%s; it is %s", such, kindOf(n))
	}
	fields := fieldsOf(v, path != "")
	names := slices.Clone(others)
	for _, f := range fields {
		if names = append(names, f.name); f.inFile {
			names = append(names, f.name+"_file")
		}
	}
	values := make(map[string]*yaml.Node)
	for k, v := range pairs(n) {
		if slices.Contains(names, k.Value) {
			values[k.Value] = v
		} else {
			known := strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ", ")
			d.add(place{d.file, k.Line}, path, "unknown key %s; known are: %s", showKey(k.Value), known)
		}
	}
	for _, f := range fields {
		d.field(join(path, f.name), f, values[f.name], values[f.name+"_file"])
	}
}

// field fills one field from the environment or, if that does not set it, from n.
// file is the value of the key with _file added.
func (d *decoder) field(key string, f field, n, file *yaml.Node) {
	v := f.value
	k := Key{Name: key, Variable: variable(key), Type: typeName(v.Type())}
	if f.inFile {
		k.FileName, k.FileVariable = key+"_file", variable(key+"_file")
	} else {
		file = nil // a key of its own
	}
	d.keys = append(d.keys, k)

	text, fileName := d.environ[k.Variable], d.environ[k.FileVariable] // an empty one counts as not set
	before := len(d.problems)
	switch {
	case text != "" && fileName != "":
		d.add(place{k.FileVariable, 0}, "", "%s is set too; set one of them", k.Variable)
	case fileName != "":
		d.readSecret(place{k.FileVariable, 0}, key, fileName, f)
	case text != "":
		d.places[key] = place{k.Variable, 0}
		d.value(d.places[key], k.Variable, nodeOf(text, v.Type()), v)
	case !isNull(n) && !isNull(file):
		d.add(place{d.file, n.Line}, key, "%s is set too, on line %d; set one of them", k.FileName, file.Line)
	case !isNull(file):
		var name string
		at := place{d.file, file.Line}
		if d.value(at, k.FileName, file, reflect.ValueOf(&name).Elem()); len(d.problems) == before {
			d.readSecret(at, key, name, f)
		}
	case !isNull(n):
		d.places[key] = place{d.file, n.Line}
		d.value(d.places[key], key, n, v)
	}
}

// readSecret fills a string with the content of the file name.
func (d *decoder) readSecret(at place, key, name string, f field) {
	d.places[key] = at
	if !d.secrets {
		return
	}
	content, err := os.ReadFile(name)
	text := strings.TrimRight(string(content), "\r\n")
	switch {
	case err != nil:
		d.add(at, key+"_file", "the file cannot be read: %v", clean.FileError(err))
	case text == "":
		d.add(at, key+"_file", "the file is empty: %s", name)
	default:
		f.value.SetString(text)
		if f.fileName.IsValid() {
			f.fileName.SetString(name)
		}
	}
}

func (d *decoder) value(at place, key string, n *yaml.Node, v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		d.list(at, key, n, v)
	case reflect.Map:
		d.mapping(at, key, n, v)
	default:
		d.scalar(at, key, n, v)
	}
}

func (d *decoder) list(at place, key string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.add(at, key, "must be a list, such as [a, b]; it is %s", kindOf(n))
		return
	}
	list := make([]string, len(n.Content))
	for i, c := range n.Content {
		d.scalar(place{at.source, c.Line}, fmt.Sprintf("%s[%d]", key, i), c, reflect.ValueOf(&list[i]).Elem())
	}
	v.Set(reflect.ValueOf(list))
}

// scalar decodes a single value. Problems with a string do not show it.
func (d *decoder) scalar(at place, key string, n *yaml.Node, v reflect.Value) {
	wrong := func(format string, args ...any) { d.add(at, key, format, args...) }
	if n.Kind != yaml.ScalarNode || isNull(n) { // null in a list or a map; elsewhere it counts as not set
		wrong("must be %s; it is %s", typeName(v.Type()), kindOf(n))
		return
	}
	s := n.Value
	switch {
	case v.Type() == namedType:
		if problem := unknownBackend(s); problem != "" {
			wrong("%s", problem)
		}
		open := func() (backend.Backend, error) { return d.input.open(s) }
		v.Set(reflect.ValueOf(backend.Named{Name: s, Open: open}))
	case v.Type() == durationType:
		x, err := time.ParseDuration(s)
		if _, number := strconv.ParseFloat(s, 64); err != nil && number == nil {
			wrong("%s has no unit; write a duration as 10s, 500ms or 1m30s", show(s))
		} else if err != nil {
			wrong("%s is not a duration; write it as 10s, 500ms or 1m30s", show(s))
		}
		v.SetInt(int64(x))
	case v.Kind() == reflect.String:
		if problem := untouched(s, at.line == 0); problem != "" {
			wrong("%s; a text that is meant so goes into a file, by the key with _file added", problem)
		}
		v.SetString(s) // as the file writes it: 007 and 1.10 are strings here
	case v.Kind() == reflect.Bool:
		if s != "true" && s != "false" {
			wrong("%s must be true or false", show(s))
		}
		v.SetBool(s == "true")
	case v.CanInt():
		bits := v.Type().Bits()
		x, err := strconv.ParseInt(s, 10, bits)
		if err != nil {
			wrong("%s is not a whole number from %d to %d", show(s), -1<<(bits-1), 1<<(bits-1)-1)
		}
		v.SetInt(x)
	default:
		wrong("%v cannot be configured", v.Type()) // a mistake of the backend's author
	}
}

var placeholder = regexp.MustCompile(`\$(\{[A-Za-z_][^}]*\}|\(\w+\))|\{\{.*\}\}|<no value>`)

// untouched says what another program has left in a value that it hands over. A member that was started
// by another one would elect elsewhere.
func untouched(s string, variable bool) (problem string) {
	switch {
	case placeholder.MatchString(s):
		return "has a ${…}, $(…), {{…}} or <no value> that nothing has replaced"
	case variable && s != strings.TrimSpace(s):
		return "begins or ends with a blank"
	case variable && len(s) > 1 && s[0] == s[len(s)-1] && strings.Contains(`"'`, s[:1]):
		return "has quotes around it, which belong to the value"
	}
	return ""
}

func (d *decoder) mapping(at place, key string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.add(at, key, "must be a map, such as {a: b}, or a=b in the environment; it is %s", kindOf(n))
		return
	}
	m := map[string]string{}
	for k, v := range pairs(n) {
		var item string
		of := fmt.Sprintf("%s[%s]", key, showKey(k.Value))
		d.scalar(place{at.source, k.Line}, of, v, reflect.ValueOf(&item).Elem())
		m[k.Value] = item
	}
	v.Set(reflect.ValueOf(m))
}

// nodeOf turns a variable's value into a node of a file: a,b into a list and a=b,c=d into a map.
func nodeOf(s string, t reflect.Type) *yaml.Node {
	scalar := func(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
	n := &yaml.Node{Kind: yaml.SequenceNode}
	switch t.Kind() {
	case reflect.Slice:
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item != "" {
				n.Content = append(n.Content, scalar(item))
			}
		}
	case reflect.Map:
		n.Kind = yaml.MappingNode
		for item := range strings.SplitSeq(s, ",") {
			if name, value, ok := strings.Cut(item, "="); ok {
				name, value = strings.TrimSpace(name), strings.TrimSpace(value)
				n.Content = append(n.Content, scalar(name), scalar(value))
			} else if strings.TrimSpace(item) != "" {
				return scalar(s) // not a map: mapping reports it
			}
		}
	default:
		return scalar(s)
	}
	return n
}

// A field is a field of a struct that has a key.
type field struct {
	name   string
	value  reflect.Value
	inFile bool // the key with _file added may name a file with the value

	// fileName is the field of the struct for the name of that file, so that the store can read it again:
	// NameFile, which has no key. It is invalid if there is none.
	fileName reflect.Value
}

// fieldsOf returns the fields that have keys, in order.
func fieldsOf(v reflect.Value, section bool) (fields []field) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct && name == "":
			fields = append(fields, fieldsOf(v.Field(i), section)...)
			continue
		case !f.IsExported() || name == "-":
			continue
		case slices.Contains([]reflect.Kind{reflect.Func, reflect.Pointer, reflect.Interface}, f.Type.Kind()):
			continue // a file cannot hold it
		case name == "":
			name = keyOf(f.Name)
		}
		next := field{name: name, value: v.Field(i)}
		file, found := v.Type().FieldByName(f.Name + "File")
		hidden := found && file.Tag.Get("yaml") == "-"
		if hidden {
			next.fileName = v.FieldByIndex(file.Index)
		}
		text := section && f.Type.Kind() == reflect.String && !strings.HasSuffix(name, "_file")
		next.inFile = text && (hidden || !found)
		fields = append(fields, next)
	}
	return fields
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

var kindNames = map[reflect.Kind]string{
	reflect.Bool: "true or false", reflect.String: "a string", reflect.Slice: "a list", reflect.Map: "a map",
	reflect.Struct: "the name of a backend",
}

func typeName(t reflect.Type) string {
	if t == durationType {
		return "a duration"
	}
	return cmp.Or(kindNames[t.Kind()], "a whole number")
}
