// Package doctor tells what this machine offers to sessions, and what to do about what
// it does not.
//
// The one idea: each check tries the real thing and answers with data: ok, degraded or
// missing, what was seen, and one line that helps. The same probes decide what tests
// skip and what a session reports as missing. It changes nothing and leaves nothing
// behind. It knows no session and prints nothing.
package doctor

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Status is the result of a check.
type Status string

// The three results. Degraded means that sessions work, but something is weaker,
// slower or refused.
const (
	OK       Status = "ok"
	Degraded Status = "degraded"
	Missing  Status = "missing"
)

// Check is one finding.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Needed: no session starts while this is missing.
	Needed bool   `json:"needed,omitempty"`
	Detail string `json:"detail,omitempty"` // what was seen
	Remedy string `json:"remedy,omitempty"` // what to do; empty when all is well
}

// Options say for whom to look.
type Options struct {
	State string // the state root, there or not
	Bwrap string // absolute path of bubblewrap; empty: the usual places
	// UID and GID are those that sessions run with when root asks; 0: an ordinary uid is
	// taken, because what root may do says nothing.
	UID, GID int
}

// patience bounds the whole examination.
const patience = 60 * time.Second

// Run makes all checks, in a fixed order.
func Run(ctx context.Context, o Options) []Check {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if os.Geteuid() != 0 {
		o.UID, o.GID = os.Geteuid(), os.Getegid()
	} else if o.UID == 0 {
		o.UID, o.GID = 65534, 65534 // nobody and nogroup
	}
	return []Check{
		kernelVersion(release()),
		bubblewrap(ctx, o),
		userNamespaces(o),
		overlayfs(o),
		ownUnion(o),
		stateRoot(o),
		stateFS(o),
		landlocked(),
		seccompNotify(),
		cgroup(),
		fuse(),
		tun(),
		inotify(sysctl),
		clock(time.Now()),
	}
}

// Usable reports whether sessions can start: nothing that is needed is missing.
func Usable(checks []Check) bool {
	for _, c := range checks {
		if c.Needed && c.Status == Missing {
			return false
		}
	}
	return true
}

func ok(name, detail string) Check { return Check{Name: name, Status: OK, Detail: detail} }

func degraded(name, detail, remedy string) Check {
	return Check{Name: name, Status: Degraded, Detail: detail, Remedy: remedy}
}

func missing(name, detail, remedy string) Check {
	return Check{Name: name, Status: Missing, Detail: detail, Remedy: remedy}
}

func (c Check) needed() Check {
	c.Needed = true
	return c
}

// sysctl returns the value of a switch below /proc/sys, "" when there is none.
func sysctl(name string) string {
	b, err := os.ReadFile(filepath.Join("/proc/sys", name))
	if err != nil {
		return ""
	}
	return trim(b)
}

func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
