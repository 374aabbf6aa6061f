package session

import (
	"strings"
	"testing"
)

func TestNewIDIsAnID(t *testing.T) {
	seen := map[ID]bool{}
	for range 1000 {
		id := NewID()
		if _, err := ParseID(string(id)); err != nil {
			t.Fatal(err)
		}
		if seen[id] {
			t.Fatalf("id %s came twice", id)
		}
		seen[id] = true
	}
}

func TestParseIDRefuses(t *testing.T) {
	for _, s := range []string{
		"", "abc", "abcdefghijk", "abcdefghijklm", "ABCDEFGHIJKL", "abcdefghijk1", "abcdefghijk8",
		"../../../../", "abcdefghijk/", "abcdefghijk\x00", "abcdefghij\xc3\xa9", "abcdefghijk ", "abcdefghijk\n",
		strings.Repeat("a", 4000),
	} {
		if id, err := ParseID(s); err == nil {
			t.Errorf("ParseID(%q) = %q, want an error", s, id)
		} else if len(err.Error()) > 300 {
			t.Errorf("the message for a long input is %d bytes", len(err.Error()))
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "0": true, "thread-17": true, "a.b_c-d": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, ".a": false, "_a": false, "A": false, "a/b": false, "a b": false, "é": false,
		"a\n": false, strings.Repeat("a", 64): false, "..": false,
		"abcdefghijkl": false, // an id
		"abcdefghijk1": true,  // none
	} {
		if got := CheckName(name) == nil; got != want {
			t.Errorf("CheckName(%q): good is %v, want %v", name, got, want)
		}
	}
}

func TestCheckLabels(t *testing.T) {
	good := map[string]string{"chat/Thread-1": "äöü x=y", "empty": ""}
	if err := CheckLabels(good); err != nil {
		t.Errorf("%v: %v", good, err)
	}
	many := map[string]string{}
	for i := range maxLabels + 1 {
		many["k"+strings.Repeat("x", i)] = ""
	}
	for _, bad := range []map[string]string{
		{"": "v"},
		{"a=b": "v"},
		{"a b": "v"},
		{"k": "a\nb"},
		{"k": "\x1b[31m"},
		{"k": "\xff"},
		{"k": strings.Repeat("v", maxLabelValue+1)},
		{strings.Repeat("k", maxLabelKey+1): "v"},
		many,
	} {
		if CheckLabels(bad) == nil {
			t.Errorf("%.80v is taken", bad)
		}
	}
}

func TestCheckEnv(t *testing.T) {
	if err := CheckEnv([]string{"A=", "_b1=x=y", "C=line\nline"}); err != nil {
		t.Error(err)
	}
	for _, kv := range []string{"", "A", "=x", "1A=x", "A B=x", "A-B=x", "A=secret\x00x", "A=" + strings.Repeat("secret", 30000)} {
		err := CheckEnv([]string{kv})
		if err == nil {
			t.Errorf("%.20q is taken", kv)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the message tells a value: %v", err)
		}
	}
}
