package shim

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/hostpath"
	"github.com/sbxd/sbxd/masks"
	"github.com/sbxd/sbxd/session"
)

// Sizes of a session's scratch file systems where the policy does not say, in bytes.
// They are bounds, not reservations: a tmpfs takes what is written.
const (
	defaultTmp = 4 << 30
	defaultShm = 1 << 30
)

// maxSteps bounds the mounts of one session. Bubblewrap before 0.13 reads the whole
// mount table several times: 2,000 take 0.2 s, and it is quadratic.
const maxSteps = 4096

// plan is a start as data: what the holder builds, and what has to be on disk first.
type plan struct {
	spec         holder.Spec
	placeholders []masks.Placeholder
	warnings     []string
}

// plan reads the host once (mount table, the paths of rules) and turns the record into
// a plan.
func (s *shim) plan() (plan, error) {
	r := s.record
	table, err := readMounts()
	if err != nil {
		return plan{}, fmt.Errorf("read the mount table: %w", err)
	}
	rules, err := s.launch.Policy.RulesFor(r)
	if err != nil {
		return plan{}, fmt.Errorf("%w: %w", session.ErrRefused, err)
	}
	views := viewsOf(r, s.launch.Dir, s.order.Layers)
	backend, err := s.backend(table, views)
	if err != nil {
		return plan{}, err
	}
	for i := range views {
		views[i].FUSE = backend == session.Unionfs
	}
	nested := nestedOf(table, views)
	m, err := masks.Make(masks.Input{
		Home: r.Home.Real, HomeSpelled: r.Home.Spelled,
		Project: r.Project.Real, ProjectSpelled: r.Project.Spelled,
		Base:      holder.Base(),
		StateDirs: s.launch.Policy.StateDirs,
		Rules:     rules,
		HomeMode:  s.launch.Policy.HomeMode,
		Mounts:    mountsOf(table, nested),
	}, masks.OS{})
	if err != nil {
		return plan{}, fmt.Errorf("%w: %w", session.ErrRefused, err)
	}
	if len(m.Steps) > maxSteps {
		return plan{}, fmt.Errorf("%w: the rules of this session need %d mounts, and more than %d would take many seconds at every start; "+
			"mask the directory that holds the files instead of each file", session.ErrRefused, len(m.Steps), maxSteps)
	}
	p := plan{placeholders: append(m.Placeholders, innerViews(views)...), warnings: m.Warnings}
	for _, u := range m.Unmatched {
		p.warnings = append(p.warnings, fmt.Sprintf("%s (%s): nothing is there; the rule holds for what appears", u.Path, u.From))
	}
	for _, n := range nested {
		if n.Hide {
			p.warnings = append(p.warnings, fmt.Sprintf("the mount %s is not shown: its file system may hang", n.Path))
		}
	}
	p.spec = holder.Spec{
		Views: views, Nested: nested, Links: append(linksOf(r), linksTo(m.Links)...), Steps: m.Steps, Placeholders: p.placeholders, Patterns: m.Patterns,
		Resolv: resolv(r.Network),
		Resume: s.launch.Resume,
	}
	return p, nil
}

// innerViews are the mountpoints of views in others that are FUSE. The kernel's overlay
// keeps a mount on the real directory, whatever the host does with that.
func innerViews(views []holder.View) (list []masks.Placeholder) {
	for i, inner := range views {
		for _, outer := range slices.Backward(views[:i]) {
			if !hostpath.Within(inner.Path, outer.Path) {
				continue
			}
			if outer.FUSE && inner.Path != outer.Path {
				list = append(list, masks.Placeholder{View: outer.Path, Path: hostpath.Rel(inner.Path, outer.Path), Kind: masks.KindDir})
			}
			break
		}
	}
	return list
}

func or(n, fallback int64) int64 {
	if n > 0 {
		return n
	}
	return fallback
}

// viewsOf are the views of a record, outer before inner.
func viewsOf(r session.Record, dir string, layers []layer) []holder.View {
	var views []holder.View
	for i, p := range places(r) {
		v := holder.View{Path: p.Real, Dev: p.Dev, Ino: p.Ino, Dir: filepath.Join(dir, []string{"home", "project"}[i])}
		if len(places(r)) == 1 {
			v.Dir = filepath.Join(dir, "project") // what lands is the project's upper
		}
		for n, l := range layers {
			if l.Path == p.Real {
				v.Layer = n + 1
			}
		}
		views = append(views, v)
	}
	return views
}

// backend is the one that mounts the views: where the kernel's cannot, and it is ours to
// choose, the other.
func (s *shim) backend(table []*mountinfo.Info, views []holder.View) (string, error) {
	backend := cmp.Or(s.launch.Backend, session.Kernel)
	if backend != session.Kernel || len(s.order.Layers) > 0 {
		return backend, nil
	}
	err := uncut(table, views)
	if err != nil && s.record.Backend != session.Kernel {
		return session.Unionfs, nil
	}
	return backend, err
}

// uncut refuses a start that the kernel would refuse: without root, overlayfs takes no
// lower directory that has mounts below it.
func uncut(table []*mountinfo.Info, views []holder.View) error {
	for _, v := range views {
		for _, m := range below(table, v.Path) {
			return fmt.Errorf("%w: %s is a mount below %s, and without root the kernel's overlay takes no directory with mounts below it; "+
				"use --backend auto or unionfs, unmount it, or use the system service", session.ErrRefused, m.Mountpoint, v.Path)
		}
	}
	return nil
}

func mountsOf(table []*mountinfo.Info, nested []holder.Nested) []masks.Mount {
	out := make([]masks.Mount, 0, len(table))
	for _, m := range table {
		out = append(out, masks.Mount{Point: m.Mountpoint, Root: m.Root, Dev: unix.Mkdev(uint32(m.Major), uint32(m.Minor)), FSType: m.FSType, Hidden: hiddenBy(m.Mountpoint, nested)})
	}
	return out
}

// hiddenBy reports whether a mountpoint is one that the session is not shown, or below one.
func hiddenBy(path string, nested []holder.Nested) bool {
	for _, n := range nested {
		if n.Hide && masks.Within(path, n.Path) {
			return true
		}
	}
	return false
}

// resolv is the content of /etc/resolv.conf inside: whatever chain of links the host
// has, the file is there.
func resolv(network string) string {
	if network != "open" {
		return "# This session has no network (--network off).\n"
	}
	b, err := os.ReadFile("/etc/resolv.conf")
	if err != nil || len(b) == 0 {
		return "# The host has no resolver.\n"
	}
	return string(b)
}

// linksOf are the links by which the user's spelling of HOME and project leads to the
// real directories.
func linksOf(r session.Record) []holder.Link {
	var links []holder.Link
	seen := map[string]bool{}
	for _, p := range places(r) {
		for _, l := range resolveLinks(p.Spelled) {
			if !seen[l.Path] {
				seen[l.Path] = true
				links = append(links, l)
			}
		}
	}
	return links
}

// linksTo are the links by which the rules' own spelling leads to what they show.
func linksTo(links []masks.Link) []holder.Link {
	out := make([]holder.Link, len(links))
	for i, l := range links {
		out[i] = holder.Link{Path: l.Path, Target: l.Target}
	}
	return out
}

// maxLinks is the kernel's own bound for one path (path_resolution(7)).
const maxLinks = 40

// resolveLinks follows a path as the kernel does and returns the links on the way, each
// at the canonical path of its directory. What cannot be read ends the walk.
func resolveLinks(path string) []holder.Link {
	var links []holder.Link
	done, rest := "/", strings.Split(strings.Trim(path, "/"), "/")
	for len(rest) > 0 && len(links) < maxLinks {
		at := filepath.Join(done, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(at)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return links
			}
			done = at // no link
			continue
		}
		links = append(links, holder.Link{Path: at, Target: target})
		if strings.HasPrefix(target, "/") {
			done = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return links
}
