package session

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWordsTakeAnyByte(t *testing.T) {
	tests := []struct {
		in   Words
		json string
	}{
		{Words{"git", "log", ""}, `["git","log",""]`},
		{Words{"a\xffb", "\xc3\xa4"}, `[{"base64":"Yf9i"},"ä"]`},
		{Words{"{\"base64\":1}"}, `["{\"base64\":1}"]`},
		{Words{}, `[]`},
	}
	for _, tt := range tests {
		b, err := json.Marshal(tt.in)
		if err != nil || string(b) != tt.json {
			t.Errorf("%q: %s, %v; want %s", tt.in, b, err, tt.json)
		}
		var got Words
		if err := json.Unmarshal(b, &got); err != nil {
			t.Errorf("%s: %v", b, err)
		}
		if diff := cmp.Diff(tt.in, got); diff != "" {
			t.Errorf("round trip (-want +got):\n%s", diff)
		}
	}
	for _, bad := range []string{`[1]`, `[{}]`, `[{"base64":"%"}]`, `[null]x`, `{"a":1}`, `["a",["b"]]`} {
		var got Words
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s: taken as %q", bad, got)
		}
	}
}

func TestSignals(t *testing.T) {
	for in, want := range map[string]int{"INT": 2, "SIGTERM": 15, "kill": 9, "sigwinch": 28, "1": 1, "64": 64} {
		if got, err := ParseSignal(in); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "-1", "65", "SIG", "NOPE", "SIGSIGINT"} {
		if got, err := ParseSignal(in); err == nil {
			t.Errorf("%q: taken as %d", in, got)
		}
	}
	for n, want := range map[int]string{2: "INT", 9: "KILL", 34: "34", 0: "0"} {
		if got := SignalName(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
