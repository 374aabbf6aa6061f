package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// controllers are those that bound a session.
var controllers = []string{"cpu", "memory", "pids"}

func cgroup() Check {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return missing("cgroup", err.Error(), "mount cgroup2 on /sys/fs/cgroup")
	}
	return judgeCgroup("/sys/fs/cgroup", string(b), os.Geteuid() == 0)
}

// judgeCgroup reports whether we may bound sessions: a cgroup of version 2, ours to
// divide, that has the controllers. own is /proc/self/cgroup.
func judgeCgroup(root, own string, isRoot bool) Check {
	const name, note = "cgroup", "sessions run without limits of their own"
	_, rest, v2 := strings.Cut("\n"+own, "\n0::")
	if _, err := os.Stat(root + "/cgroup.controllers"); !v2 || err != nil {
		return missing(name, "cgroup version 2 is not at "+root+"; "+note, "boot with systemd.unified_cgroup_hierarchy=1")
	}
	path, _, _ := strings.Cut(rest, "\n")
	dir := filepath.Join(root, path)
	if isRoot {
		dir = root
	}
	b, err := os.ReadFile(dir + "/cgroup.controllers")
	if err != nil {
		return missing(name, fmt.Sprintf("%v; %s", err, note), "run sbxd where /sys/fs/cgroup is the host's")
	}
	have := strings.Fields(string(b))
	lacks := slices.DeleteFunc(slices.Clone(controllers), func(c string) bool { return slices.Contains(have, c) })
	if len(lacks) > 0 {
		return missing(name, fmt.Sprintf("%s lacks the controllers %s; %s", dir, strings.Join(lacks, ", "), note), delegate)
	}
	if err := unix.Access(dir+"/cgroup.procs", unix.W_OK); err != nil {
		return missing(name, fmt.Sprintf("%s is not ours to divide; %s", dir, note), delegate)
	}
	return ok(name, dir+" has "+strings.Join(controllers, ", "))
}

const delegate = "run the daemon as a service with Delegate=yes (deploy/sbxd.service, deploy/user/sbxd.service)"
