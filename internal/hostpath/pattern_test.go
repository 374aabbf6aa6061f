package hostpath

import (
	"strings"
	"testing"
)

func TestParsePattern(t *testing.T) {
	base := Base{Home: "/real/home", HomeSpelled: "/home/u", Project: "/real/home/app"}
	for text, want := range map[string]string{
		"**/.env":              "/real/home **/.env",
		"~/.config/*/token*":   "/real/home/.config */token*",
		"src/**/*.key":         "/real/home/app/src **/*.key",
		"/home/u/x/[ab]":       "/real/home/x [ab]",
		"/home/u/app/*.{k,p}":  "/real/home/app *.k, /real/home/app *.p",
		`~/\*/y*`:              `/real/home/* y*`,
		"/etc/*.key":           "/etc *.key",
		"/*":                   "/ *",
		"*.pem":                "/real/home/app *.pem",
		"~/a/./b//*":           "! no names",
		"~/../*":               "! no names",
		"~x/*":                 "! unknown place",
		"//x/*":                "! unknown place",
		"~/{a":                 "! does not end",
		"~/*\x00":              "! NUL",
		strings.Repeat("*", 9): "! whole names",
	} {
		got := ""
		list, err := ParsePattern(text, base)
		if err != nil {
			got = "! " + err.Error()
		}
		for i, p := range list {
			if i > 0 {
				got += ", "
			}
			got += p.Root + " " + p.Glob.String()
		}
		if got != want && (err == nil || !strings.Contains(got, strings.TrimPrefix(want, "! "))) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	list, err := ParsePattern("**/x", Base{Home: "/h", Project: "/p"})
	if err != nil || len(list) != 2 || list[0].Root != "/h" || list[1].Root != "/p" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := ParsePattern("*.x", Base{Home: "/h"}); err == nil {
		t.Error("a relative pattern without a project is taken")
	}
}
