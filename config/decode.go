package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is a TOML file with the place of every key and list element.
type document struct {
	file string
	data []byte
	at   map[string]int // key → offset
	ends []int          // offsets of the newlines
}

// decode reads data strictly into v, a pointer to a struct. Every unknown key and
// wrong type is a Fault; all of them are joined.
func decode(file string, data []byte, v any) (*document, error) {
	d := &document{file: file, data: data, at: map[string]int{}}
	var tree map[string]any
	if err := toml.Unmarshal(data, &tree); err != nil {
		return d, d.syntax(err)
	}
	d.index()
	if err := errors.Join(d.check(tree, reflect.TypeOf(v).Elem(), "")...); err != nil {
		return d, err
	}
	dec := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return d, d.syntax(err)
	}
	return d, nil
}

func (d *document) syntax(err error) error {
	var de *toml.DecodeError
	if !errors.As(err, &de) {
		return &Fault{File: d.file, Message: err.Error()}
	}
	line, column := de.Position()
	return &Fault{
		File: d.file, Line: line, Column: column,
		Key: strings.Join(de.Key(), "."), Message: strings.TrimPrefix(de.Error(), "toml: "),
	}
}

// fault is a Fault at key, or at the nearest key above it that has a place.
func (d *document) fault(key, format string, a ...any) error {
	f := &Fault{File: d.file, Key: key, Message: fmt.Sprintf(format, a...)}
	f.Line, f.Column = d.place(key)
	return f
}

func (d *document) has(key string) bool {
	_, ok := d.at[key]
	return ok
}

// place returns line and column of key, from 1, or zeros.
func (d *document) place(key string) (line, column int) {
	for ; key != ""; key = key[:max(strings.LastIndexAny(key, ".["), 0)] {
		off, ok := d.at[key]
		if !ok {
			continue
		}
		n, _ := slices.BinarySearch(d.ends, off)
		if n == 0 {
			return 1, off + 1
		}
		return n + 1, off - d.ends[n-1]
	}
	return 0, 0
}

// origin names the place of key for people.
func (d *document) origin(key string) string {
	if line, _ := d.place(key); line > 0 {
		return fmt.Sprintf("%s:%d", d.file, line)
	}
	return d.file
}

// index finds where every key and list element stands. The document has no errors.
func (d *document) index() {
	for i, c := range d.data {
		if c == '\n' {
			d.ends = append(d.ends, i)
		}
	}
	p := unstable.Parser{}
	p.Reset(d.data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = d.keys("", e.Key())
		case unstable.KeyValue:
			d.value(d.keys(table, e.Key()), e.Value())
		}
	}
}

// keys notes every step of a dotted key below prefix and returns the whole.
func (d *document) keys(prefix string, it unstable.Iterator) string {
	for it.Next() {
		prefix = dotted(prefix, string(it.Node().Data))
		if !d.has(prefix) {
			d.at[prefix] = int(it.Node().Raw.Offset)
		}
	}
	return prefix
}

func (d *document) value(key string, n *unstable.Node) {
	it := n.Children()
	switch n.Kind {
	case unstable.Array:
		for i := 0; it.Next(); i++ {
			sub := fmt.Sprintf("%s[%d]", key, i)
			if raw := it.Node().Raw; raw.Length > 0 {
				d.at[sub] = int(raw.Offset)
			}
			d.value(sub, it.Node())
		}
	case unstable.InlineTable:
		for it.Next() {
			d.value(d.keys(key, it.Node().Key()), it.Node().Value())
		}
	}
}

func dotted(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

var text = reflect.TypeFor[encoding.TextUnmarshaler]()

// check compares a decoded value with the type it is meant for.
func (d *document) check(v any, t reflect.Type, key string) []error {
	wrong := func(want string) []error {
		return []error{d.fault(key, "is %s; it has to be %s", kindOf(v), want)}
	}
	var errs []error
	switch {
	case t.Kind() == reflect.String || reflect.PointerTo(t).Implements(text):
		if _, ok := v.(string); !ok {
			return wrong("a string")
		}
	case t.Kind() == reflect.Bool:
		if _, ok := v.(bool); !ok {
			return wrong("true or false")
		}
	case t.Kind() == reflect.Int:
		if _, ok := v.(int64); !ok {
			return wrong("a whole number")
		}
	case t.Kind() == reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return wrong("a list of strings")
		}
		for i, e := range list {
			errs = append(errs, d.check(e, t.Elem(), fmt.Sprintf("%s[%d]", key, i))...)
		}
	case t.Kind() == reflect.Map:
		m, ok := v.(map[string]any)
		if !ok {
			return wrong("a table")
		}
		for _, k := range sortedKeys(m) {
			errs = append(errs, d.check(m[k], t.Elem(), dotted(key, k))...)
		}
	case t.Kind() == reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			return wrong("a table")
		}
		fields := keysOf(t)
		for _, k := range sortedKeys(m) {
			if f, ok := fields[k]; ok {
				errs = append(errs, d.check(m[k], f, dotted(key, k))...)
				continue
			}
			errs = append(errs, d.fault(dotted(key, k), "unknown key; allowed here: %s", strings.Join(sortedKeys(fields), ", ")))
		}
	}
	return errs
}

// keysOf returns the keys of a struct with their types.
func keysOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for f := range t.Fields() {
		if tag := f.Tag.Get("toml"); tag != "" {
			out[tag] = f.Type
		}
	}
	return out
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "a whole number"
	case float64:
		return "a decimal number"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
