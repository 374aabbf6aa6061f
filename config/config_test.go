package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/invopop/jsonschema"
)

var update = flag.Bool("update", false, "rewrite the generated files")

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The example is the documentation: it has every key with its default.
func TestExampleIsDefault(t *testing.T) {
	var got Config
	if _, err := decode("example", Example(), &got); err != nil {
		t.Fatal(err)
	}
	opts := []cmp.Option{cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Config{})}
	if d := cmp.Diff(Default(), got, opts...); d != "" {
		t.Errorf("the example differs from Default() (-default +example):\n%s", d)
	}
	loaded, warnings, err := Load(Sources{Only: write(t, "c.toml", string(Example()))})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("load the example: %v, %v", err, warnings)
	}
	if d := cmp.Diff(Default(), loaded, opts...); d != "" {
		t.Errorf("the loaded example differs from Default():\n%s", d)
	}
}

// sample are the lines of the example that show more than defaults: "#key = …".
var sample = regexp.MustCompile(`(?m)^#([a-z\[])`)

func TestExampleSamplesAreValid(t *testing.T) {
	text := sample.ReplaceAllString(string(Example()), "$1")
	for _, key := range []string{"masks", "final_masks", "carves", "read_only"} {
		text = strings.Replace(text, key+" = []\n", "", 1)
	}
	c, _, err := Load(Sources{Only: write(t, "c.toml", text)})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Masks) != 2 || len(c.Carves) != 1 || c.RunAs != "agent" || c.Agents["my-agent"].Paths["~/.my-agent"] != "private" {
		t.Errorf("the samples were not read: %+v", c)
	}
}

func TestExampleHasEveryKey(t *testing.T) {
	text := sample.ReplaceAllString(string(Example()), "$1")
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		for key, f := range keysOf(typ) {
			if !regexp.MustCompile(`(?m)^(` + key + ` = |\[` + key + `[].])`).MatchString(text) {
				t.Errorf("the example lacks %s", key)
			}
			for f.Kind() == reflect.Map || f.Kind() == reflect.Slice {
				f = f.Elem()
			}
			if f.Kind() == reflect.Struct && f != reflect.TypeFor[Path]() {
				walk(f)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}

func TestSchema(t *testing.T) {
	r := jsonschema.Reflector{
		FieldNameTag: "toml", DoNotReference: true, RequiredFromJSONSchemaTags: true,
		Mapper: func(typ reflect.Type) *jsonschema.Schema {
			if typ == reflect.TypeFor[Path]() {
				return &jsonschema.Schema{Type: "string", MinLength: new(uint64(1))}
			}
			return nil
		},
	}
	if err := r.AddGoComments("github.com/sbxd/sbxd/config", "."); err != nil {
		t.Fatal(err)
	}
	s := r.Reflect(&Config{})
	s.ID, s.Title = "", "Configuration of sbxd"
	got, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile("schema.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, Schema()) {
		t.Errorf("schema.json is not what the struct says (go test ./config -run Schema -update):\n%s", cmp.Diff(string(Schema()), string(got)))
	}
}
