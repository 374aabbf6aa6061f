package sweep

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

func TestMain(m *testing.M) {
	if os.Getenv(workEnv) != "" {
		work()
		return
	}
	testbox.Main(m)
}

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	boot = "this-boot"
	root = "/st"
	base = root + "/sessions"
)

func sid(c string) session.ID { return session.ID(strings.Repeat(c, 12)) }

func pid(n int) proc.ID { return proc.ID{Pid: n, Start: uint64(n) * 10, Boot: boot} }

// rec is a record of a session that was started long ago, with processes n, n+1, n+2
// and the mount namespace n.
func rec(id session.ID, state session.State, n int) session.Record {
	r := session.Record{ID: id, State: state, Created: now.Add(-time.Hour), Boot: boot}
	if n > 0 {
		r.Running = session.Running{Shim: pid(n), Bwrap: pid(n + 1), Guest: pid(n + 2), MountNS: uint64(n)}
	}
	return r
}

// world is a machine on which nothing is wrong: our namespace 1, one base.
func world() (Seen, Known) {
	return Seen{
			Now: now, Boot: boot, Own: 1,
			Processes:  map[proc.ID]proc.Liveness{},
			Namespaces: []Namespace{{Inode: 1, Mounts: []Mount{{Point: "/", Root: "/", Major: 8, Minor: 1, FSType: "ext4"}}}},
			Bases:      []Base{{Path: base, FSPath: base, Major: 8, Minor: 1}},
		},
		Known{Root: root, Runtime: "/run/sbxd"}
}

func (s *Seen) lives(l proc.Liveness, ids ...proc.ID) {
	for _, id := range ids {
		s.Processes[id] = l
	}
}

func (s *Seen) mount(ns uint64, m Mount) {
	for i := range s.Namespaces {
		if s.Namespaces[i].Inode == ns {
			s.Namespaces[i].Mounts = append(s.Namespaces[i].Mounts, m)
			return
		}
	}
	s.Namespaces = append(s.Namespaces, Namespace{Inode: ns, Mounts: []Mount{m}})
}

// lines is a plan in short.
func lines(p Plan) []string {
	var out []string
	for _, e := range p.Entries {
		what := e.What
		if e.Session != "" {
			what = strings.ReplaceAll(what, string(e.Session), "ID")
		}
		out = append(out, fmt.Sprintf("%s %s %s: %s", e.Action, e.Kind, what, e.Reason))
	}
	return out
}
