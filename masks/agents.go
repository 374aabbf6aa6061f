package masks

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxd/sbxd/internal/hostpath"
)

// Mode is what an agent sees at one of its state paths.
type Mode string

// The modes. None is only good to take a path out of a built-in profile.
const (
	Private Mode = "private" // a directory of sbxd's own, kept from session to session
	Copy    Mode = "copy"    // a directory of this session's own
	RO      Mode = "ro"      // the host's, read-only
	Live    Mode = "live"    // the host's, really written
	None    Mode = "none"    // whatever a session without profile sees
)

// Agent is the profile of one agent's command line: where it keeps its state, and
// what each of those paths is in a session.
type Agent struct {
	Name   string
	Paths  []AgentPath // sorted by path
	Env    []Variable  // sorted by name
	Source string      // where the paths are documented
}

// AgentPath is one path of a profile.
type AgentPath struct {
	Path string // "~/…" or absolute
	Mode Mode
	// Seed are files that are copied when a private or copied directory is made.
	Seed []Seed
}

// Seed is a file of the host and its name in the directory it is copied to.
type Seed struct {
	From string // "~/…" or absolute
	To   string // relative to the directory
}

// Variable is one of the environment. A leading "~/" of Value stands for HOME.
type Variable struct{ Name, Value string }

// Agents returns the built-in profiles, sorted by name.
func Agents() []Agent { return slices.Clone(agents) }

// FindAgent returns the built-in profile called name.
func FindAgent(name string) (Agent, bool) {
	for _, a := range agents {
		if a.Name == name {
			return a, true
		}
	}
	return Agent{}, false
}

// AgentNames returns the names of the built-in profiles, sorted.
func AgentNames() []string {
	out := make([]string, len(agents))
	for i, a := range agents {
		out[i] = a.Name
	}
	return out
}

// Override returns the profile with the changes of a configuration: modes by path,
// files to seed (each into the directory of the profile that it lies in, under the
// same name), and variables. Paths are written as in hostpath, without a project.
func (a Agent) Override(paths map[string]string, seed []string, env map[string]string) (Agent, error) {
	fail := func(format string, v ...any) (Agent, error) {
		return Agent{}, fmt.Errorf("agent %s: "+format, append([]any{a.Name}, v...)...)
	}
	b := Agent{Name: a.Name, Source: a.Source, Env: slices.Clone(a.Env)}
	byPath := map[string]AgentPath{}
	for _, p := range a.Paths {
		byPath[p.Path] = p
	}
	for text, mode := range paths {
		p, err := tilde(text)
		if err != nil {
			return fail("%w", err)
		}
		switch m := Mode(mode); m {
		case None:
			delete(byPath, p)
		case Private, Copy, RO, Live:
			byPath[p] = AgentPath{Path: p, Mode: m, Seed: byPath[p].Seed}
		default:
			return fail("mode %.40q of %s; allowed: copy, live, none, private, ro", mode, p)
		}
	}
	for _, text := range seed {
		f, err := tilde(text)
		if err != nil {
			return fail("%w", err)
		}
		dir := parent(f)
		for ; len(dir) > 1; dir = parent(dir) {
			if p, ok := byPath[dir]; ok && p.own() {
				p.Seed = append(slices.Clone(p.Seed), Seed{From: f, To: hostpath.Rel(f, dir)})
				byPath[dir] = p
				break
			}
		}
		if len(dir) <= 1 {
			return fail("the seed %s lies in no private or copied directory of the profile", f)
		}
	}
	for _, p := range byPath {
		b.Paths = append(b.Paths, p)
	}
	slices.SortFunc(b.Paths, func(x, y AgentPath) int { return strings.Compare(x.Path, y.Path) })
	for name, value := range env {
		b.Env = slices.DeleteFunc(b.Env, func(v Variable) bool { return v.Name == name })
		b.Env = append(b.Env, Variable{name, value})
	}
	slices.SortFunc(b.Env, func(x, y Variable) int { return strings.Compare(x.Name, y.Name) })
	return b, nil
}

// tilde reads a path and keeps the tilde, so that a profile holds for every HOME.
func tilde(text string) (string, error) {
	const home = "/\x00" // no path can be written that way
	spec, err := hostpath.Parse(text, hostpath.Base{Home: home})
	if err != nil {
		return "", err
	}
	if Within(spec.Path, home) {
		return "~" + spec.Path[len(home):], nil
	}
	return spec.Path, nil
}

func (p AgentPath) own() bool { return p.Mode == Private || p.Mode == Copy }

// Rules are what the profile means for a session. Directories of sbxd's own lie below
// kept (for one user and agent, lasting) and once (for this session).
func (a Agent) Rules(home, kept, once string) []Rule {
	var out []Rule
	for _, p := range a.Paths {
		r := Rule{Path: inHome(p.Path, home), Kind: KindDir, From: "agent " + a.Name, Why: "state of " + a.Name}
		switch p.Mode {
		case Private:
			r.Class, r.Target = CarveOut, join(kept, slot(p.Path))
		case Copy:
			r.Class, r.Target = CarveOut, join(once, slot(p.Path))
		case Live:
			r.Class = CarveOut
		case RO:
			r.Class, r.Kind, r.Optional = RuntimeInput, KindAny, true
		default:
			continue
		}
		out = append(out, r)
	}
	return out
}

// OwnDir is a directory of sbxd's own that has to be there before a session starts.
type OwnDir struct {
	Path string
	Seed []Seed // From is absolute
}

// OwnDirs are the directories that the rules of the profile show, with what is copied
// into each when it is made.
func (a Agent) OwnDirs(home, kept, once string) []OwnDir {
	var out []OwnDir
	for _, p := range a.Paths {
		if !p.own() {
			continue
		}
		d := OwnDir{Path: join(kept, slot(p.Path))}
		if p.Mode == Copy {
			d.Path = join(once, slot(p.Path))
		}
		for _, s := range p.Seed {
			d.Seed = append(d.Seed, Seed{From: inHome(s.From, home), To: s.To})
		}
		out = append(out, d)
	}
	return out
}

// Environ returns the variables as NAME=VALUE for the HOME that the user sees.
func (a Agent) Environ(home string) []string {
	out := make([]string, len(a.Env))
	for i, v := range a.Env {
		out[i] = v.Name + "=" + v.Value
		if strings.HasPrefix(v.Value, "~/") {
			out[i] = v.Name + "=" + inHome(v.Value, home)
		}
	}
	return out
}

func inHome(p, home string) string {
	if p == "~" || strings.HasPrefix(p, "~/") {
		return expand(p, home)
	}
	return p
}

// slot is the name of the directory that stands for path: "~/.local/share/x" is kept
// in ".local+share+x".
func slot(p string) string {
	p = strings.TrimPrefix(strings.TrimPrefix(p, "~"), "/")
	return strings.ReplaceAll(strings.ReplaceAll(path.Clean(p), "+", "++"), "/", "+")
}
