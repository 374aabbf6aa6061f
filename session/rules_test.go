package session

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/internal/glob"
	"github.com/sbxd/sbxd/masks"
)

func TestRulesFor(t *testing.T) {
	r := Record{
		Home: Place{Spelled: "/h", Real: "/home/u"}, Project: Place{Spelled: "/h/p", Real: "/home/u/p"},
		Given: Given{Masks: []string{"secret/"}, Carves: []string{"/h/p/out"}, FinalMasks: []string{"~/k"}, ReadOnly: []string{"/opt/x"}},
	}
	p := Policy{
		Rules: []masks.Rule{{Class: masks.RuntimeInput, Path: "/skills", From: "agent codex"}},
		Given: []Source{{From: "/etc/sbxd/config.toml:3", Rules: Given{Masks: []string{"~/.x"}}}},
	}
	got, err := p.RulesFor(r)
	want := []masks.Rule{
		{Class: masks.RuntimeInput, Path: "/skills", From: "agent codex"},
		{Class: masks.Mask, Path: "/home/u/.x", From: "/etc/sbxd/config.toml:3"},
		{Class: masks.Mask, Path: "/home/u/p/secret", Kind: masks.KindDir, From: "--mask"},
		{Class: masks.CarveOut, Path: "/home/u/p/out", From: "--carve"},
		{Class: masks.FinalMask, Path: "/home/u/k", From: "--final-mask"},
		{Class: masks.ReadOnlyInput, Path: "/opt/x", From: "--ro"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	r.Given = Given{Masks: []string{"**/.env"}}
	got, err = p.RulesFor(r)
	if want := (masks.Rule{Class: masks.Mask, Path: "/home/u", Pattern: glob.Pattern{"**", ".env"}, From: "--mask"}); err != nil || cmp.Diff(want, got[len(got)-1]) != "" {
		t.Errorf("a pattern: %+v, %v", got, err)
	}
	r.Given = Given{Carves: []string{"**/.env"}}
	if _, err := p.RulesFor(r); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--carve") || !strings.Contains(err.Error(), "only be a mask") {
		t.Errorf("a pattern as carve-out: %v", err)
	}
}
