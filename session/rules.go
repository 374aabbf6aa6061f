package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sbxd/sbxd/internal/hostpath"
	"github.com/sbxd/sbxd/masks"
)

// RulesFor returns all path rules of r under p except the built-in ones: the host's
// first, then those of the project's own file, then the caller's. Every path is read in
// the one way of package hostpath; ErrRefused names the flag or file of one that cannot
// be.
func (p Policy) RulesFor(r Record) ([]masks.Rule, error) {
	base := hostpath.Base{
		Home: r.Home.Real, HomeSpelled: r.Home.Spelled,
		Project: r.Project.Real, ProjectSpelled: r.Project.Spelled,
	}
	rules := append([]masks.Rule(nil), p.Rules...)
	for _, src := range slices.Concat(p.Given, r.Tight) {
		more, err := parse(src.Rules, base, [...]string{src.From, src.From, src.From, src.From})
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	more, err := parse(r.Given, base, [...]string{"--mask", "--carve", "--final-mask", "--ro"})
	return append(rules, more...), err
}

// BackendFor returns the backend that holds the rules of r under p: what r asks for, and
// the kernel's if that is left to us and does. ErrRefused: what it asks for does not.
func (p Policy) BackendFor(r Record) (string, error) {
	rules, err := p.RulesFor(r)
	if err != nil {
		return "", err
	}
	bounded := p.ChangesSize > 0 || p.ChangedFiles > 0
	i := slices.IndexFunc(rules, func(r masks.Rule) bool { return r.Pattern != nil })
	switch {
	case r.Backend == Unionfs, (i >= 0 || bounded) && r.Backend != Kernel:
		return Unionfs, nil
	case i >= 0:
		return "", fmt.Errorf("%w: the mask %s (%s) is a pattern, which the kernel's overlay cannot hold; use --backend auto or unionfs",
			ErrRefused, rules[i].Text(), rules[i].From)
	case bounded:
		return "", fmt.Errorf("%w: the configuration bounds what a session changes ([limits] changes_mib, changed_files), which the kernel's overlay cannot; "+
			"use --backend auto or unionfs", ErrRefused)
	}
	return Kernel, nil
}

// parse reads one set of paths; from names their origin, in the order of Given.
func parse(g Given, base hostpath.Base, from [4]string) ([]masks.Rule, error) {
	classes := [...]masks.Class{masks.Mask, masks.CarveOut, masks.FinalMask, masks.ReadOnlyInput}
	var rules []masks.Rule
	for i, list := range [...][]string{g.Masks, g.Carves, g.FinalMasks, g.ReadOnly} {
		for _, text := range list {
			spec, err := hostpath.Parse(text, base)
			if errors.Is(err, hostpath.ErrPattern) && classes[i] == masks.Mask {
				patterns, err := hostpath.ParsePattern(text, base)
				if err != nil {
					return nil, fmt.Errorf("%w: %s: %w", ErrRefused, from[i], err)
				}
				for _, p := range patterns {
					rules = append(rules, masks.Rule{Class: masks.Mask, Path: p.Root, Pattern: p.Glob, From: from[i]})
				}
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrRefused, from[i], err)
			}
			rule := masks.Rule{Class: classes[i], Path: spec.Path, From: from[i]}
			if spec.Dir {
				rule.Kind = masks.KindDir
			}
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

// Sum names what the rules of r under p come to, whoever wrote them and where: two
// policies with the same sum give a session the same view.
func (p Policy) Sum(r Record) (string, error) {
	rules, err := p.RulesFor(r)
	if err != nil {
		return "", err
	}
	for i := range rules {
		rules[i].From, rules[i].Why = "", ""
	}
	text, err := json.Marshal(struct {
		Home      masks.HomeMode
		StateDirs []string
		Base      []string
		Rules     []masks.Rule
		Bounds    [2]int64
	}{p.HomeMode, p.StateDirs, p.Base, rules, [2]int64{p.ChangesSize, p.ChangedFiles}})
	if err != nil {
		return "", fmt.Errorf("sum up the policy: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}
