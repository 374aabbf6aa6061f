package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/hostpath"
	"github.com/sbxd/sbxd/masks"
	"github.com/sbxd/sbxd/session"
)

// access are the API's words for what a session can do with a path.
var access = map[masks.Verdict]string{
	masks.Hidden: "hidden", masks.ReadOnly: "read-only", masks.Writable: "live",
	masks.Own: "live", masks.Copied: "writable", masks.Absent: "absent",
}

// Check tells why no session could be w.Record under w.Policy: which rule is refused,
// or why. It looks with the rights of the calling process.
func Check(w session.Work) error {
	_, err := maskPlan(w)
	return err
}

func explain(_ context.Context, w session.Work) (any, error) { return Explain(w) }

// Explain tells what the session w.Record makes of w.Path under w.Policy. It looks with
// the rights of the calling process.
func Explain(w session.Work) (api.Explanation, error) {
	plan, err := maskPlan(w)
	if err != nil {
		return api.Explanation{}, err
	}
	e := plan.Explain(w.Path)
	out := api.Explanation{Path: e.Path, Access: access[e.Verdict], Rule: ruleText(e.Rule), Why: e.Rule.Why}
	switch e.Verdict {
	case masks.Copied:
		out.Rule = copied(w.Record, e.Real)
	case masks.Absent:
		out.Rule = "not part of any session"
	case masks.Own:
		out.Notes = append(out.Notes, "a directory of sbxd's own stands in its place: "+e.Rule.Target)
	}
	if out.Rule == "" {
		out.Rule = "read-only part of every session"
	}
	if e.Real != e.Path {
		out.Notes = append(out.Notes, "it is "+e.Real)
	}
	for _, s := range e.Chain {
		out.Chain = append(out.Chain, fmt.Sprintf("%s %s: %s", s.Op, s.Path, ruleText(s.Rule)))
	}
	if e.Verdict == masks.Hidden && tracked(w.Record.Project.Real, e.Real) {
		out.Notes = append(out.Notes, "the project is a git repository: its objects may still hold what was committed there")
	}
	return out, nil
}

// copied says what becomes of a change in a view.
func copied(r session.Record, path string) string {
	const view = "copy-on-write view: changes stay in the session"
	switch {
	case !hostpath.Within(path, r.Project.Real):
		return view
	case slices.Contains(strings.Split(hostpath.Rel(path, r.Project.Real), "/"), ".git"):
		return view + "; git's own files never land"
	}
	return view + " until they are landed"
}

func ruleText(r masks.Rule) string {
	if r.Path == "" {
		return ""
	}
	return fmt.Sprintf("%s %s (%s)", r.Class, r.Text(), r.From)
}

// tracked reports whether path lies in a project with a git repository. Whether git
// knows it only git could tell, and git never runs on the host here.
func tracked(project, path string) bool {
	if !hostpath.Within(path, project) {
		return false
	}
	_, err := os.Lstat(filepath.Join(project, ".git"))
	return err == nil
}
