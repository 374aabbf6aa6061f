package session

import (
	"fmt"
	"path/filepath"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/config"
)

// tighten reads the project's own file, which can only take something away from a
// session, and counts when a person has looked at exactly this one (sbxd trust). Any
// other is named and left alone, so that a stranger's project cannot stop a start.
func (p *Places) tighten(trust string) error {
	if trust == "" {
		return nil
	}
	doc, err := config.ReadProject(p.Project.Real, p.Home.Real)
	if err != nil {
		p.Notes = append(p.Notes, fmt.Sprintf("ignored: %v", err))
		return nil
	}
	if doc == nil {
		return nil
	}
	ok, why, err := config.Trusted(trust, doc)
	if err != nil {
		return err
	}
	if !ok {
		p.Notes = append(p.Notes, why)
		return nil
	}
	file, err := doc.Decode()
	if err != nil {
		return &api.Error{Code: api.ExitUsage, Message: err.Error(), Hint: "mend it, then sbxd trust " + doc.Dir}
	}
	p.NetworkOff = file.Network.Default == "off"
	for _, m := range file.Masks {
		p.Tight = append(p.Tight, Source{From: m.From, Rules: Given{Masks: []string{m.Text}}})
	}
	for _, m := range file.ReadOnly {
		p.Tight = append(p.Tight, Source{From: m.From, Rules: Given{ReadOnly: []string{m.Text}}})
	}
	return nil
}

// Use takes what was found out about places into the record of a session that is about
// to start; ErrRefused when the project's own file forbids what was asked for.
func (r *Record) Use(p Places) error {
	if p.NetworkOff && r.Network != "off" {
		return fmt.Errorf("network %s: %w: %s/%s says that no session of the project has a network",
			r.Network, ErrRefused, p.Project.Real, config.ProjectFile)
	}
	r.Project, r.Home, r.Tight, r.Notes = p.Project, p.Home, p.Tight, p.Notes
	return nil
}

// Trust records in the file w.Trust that the project w.Path may speak for itself. It
// acts with the rights of the calling process, which has the uid of the sessions.
func Trust(w Work) (api.Trusted, error) {
	at, _, err := resolve("project", w.Path)
	if err != nil {
		return api.Trusted{}, err
	}
	home, err := filepath.EvalSymlinks(w.Record.Home.Spelled)
	if err != nil {
		home = w.Record.Home.Spelled
	}
	doc, err := config.ReadProject(at.Real, home)
	if err != nil {
		return api.Trusted{}, err
	}
	if doc == nil {
		return api.Trusted{}, &api.Error{Code: api.ExitNotFound, Message: fmt.Sprintf("there is no %s in %s", config.ProjectFile, at.Real)}
	}
	if _, err := doc.Decode(); err != nil {
		return api.Trusted{}, &api.Error{Code: api.ExitUsage, Message: err.Error(), Hint: "mend it, then trust it"}
	}
	if err := config.Trust(w.Trust, doc); err != nil {
		return api.Trusted{}, err
	}
	return api.Trusted{Dir: doc.Dir, File: doc.File(), Digest: doc.Digest}, nil
}
