package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/probe"
)

// minFree is how much room a state root should have: some sessions' builds.
const minFree = 1 << 30

// stateRoot checks what a daemon checks when it opens the state root, and whether a
// cleaner of temporary files would empty it.
func stateRoot(o Options) Check {
	const name = "state-root"
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	var st unix.Stat_t
	err := unix.Lstat(o.State, &st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir, err := existing(o.State)
		if err != nil {
			return missing(name, err.Error(), "set SBXD_STATE to a directory that can be made").needed()
		}
		if err := unix.Access(dir, unix.W_OK); err != nil {
			return missing(name, fmt.Sprintf("%s is not there, and %s cannot be written", o.State, dir), "make it, or set SBXD_STATE").needed()
		}
		return cleaned(name, o.State, "is not there yet; the daemon makes it")
	case err != nil:
		return missing(name, fmt.Sprintf("%s: %v", o.State, err), "set SBXD_STATE to another directory").needed()
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return missing(name, o.State+" is a link", "set SBXD_STATE to what it leads to").needed()
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return missing(name, o.State+" is not a directory", "set SBXD_STATE to a directory").needed()
	case int(st.Uid) != os.Geteuid():
		return missing(name, fmt.Sprintf("%s belongs to uid %d, not to %d", o.State, st.Uid, os.Geteuid()), "remove it, or set SBXD_STATE").needed()
	}
	if extra := fs.FileMode(st.Mode).Perm() &^ mode; extra != 0 {
		return missing(name, fmt.Sprintf("%s has mode %04o", o.State, fs.FileMode(st.Mode).Perm()),
			fmt.Sprintf("chmod %04o %s", mode, o.State)).needed()
	}
	return cleaned(name, o.State, "is ours alone")
}

// cleaners are where systemd-tmpfiles reads its lines.
var cleaners = []string{"/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/lib/tmpfiles.d"}

// cleaned warns about a state root that lies where old files are removed by age: the
// daemon's lock keeps them off only while it runs.
func cleaned(name, state, detail string) Check {
	for _, tmp := range []string{"/tmp", "/var/tmp"} {
		if strings.HasPrefix(state, tmp+"/") && aged(tmp) && !excluded(state) {
			return degraded(name, state+" "+detail+", but what is old in "+tmp+" is removed while no daemon runs",
				"install deploy/tmpfiles.conf as /etc/tmpfiles.d/sbxd.conf, or set SBXD_STATE").needed()
		}
	}
	return ok(name, state+" "+detail).needed()
}

// tmpfilesLines calls f with the fields of each line; an /etc file hides one of the same
// name elsewhere.
func tmpfilesLines(f func(fields []string) bool) bool {
	seen := map[string]bool{}
	for _, dir := range cleaners {
		names, _ := filepath.Glob(dir + "/*.conf")
		for _, n := range names {
			if seen[filepath.Base(n)] {
				continue
			}
			seen[filepath.Base(n)] = true
			b, err := os.ReadFile(n)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(b)) {
				if fields := strings.Fields(line); len(fields) > 1 && f(fields) {
					return true
				}
			}
		}
	}
	return false
}

// aged reports whether a line gives an age to the files of dir.
func aged(dir string) bool {
	return tmpfilesLines(func(f []string) bool {
		return len(f) > 5 && f[1] == dir && f[5] != "-" && strings.ContainsAny(f[0][:1], "dDevqQ")
	})
}

// excluded reports whether a line keeps the cleaner out of path.
func excluded(path string) bool {
	return tmpfilesLines(func(f []string) bool {
		hit, _ := filepath.Match(f[1], path)
		return hit && strings.ContainsAny(f[0][:1], "xX")
	})
}

// stateFS tries what views and landings need of the state root's file system.
func stateFS(o Options) Check {
	const name = "state-fs"
	dir, err := existing(o.State)
	if err != nil {
		return missing(name, err.Error(), "set SBXD_STATE to a directory").needed()
	}
	fsys, err := probe.FSOf(dir)
	if err != nil {
		return missing(name, err.Error(), "set SBXD_STATE to another file system").needed()
	}
	var failed []string
	for _, f := range probe.Features {
		if err := f.Try(dir); err != nil {
			failed = append(failed, fmt.Sprintf("no %s (%v): %s", f.Name, err, f.For))
		}
	}
	return judgeFS(dir, fsys, failed)
}

func judgeFS(dir string, fsys probe.FS, failed []string) Check {
	const name, elsewhere = "state-fs", "put the state root (SBXD_STATE) on a local ext4, xfs or btrfs"
	detail := dir + " is on " + fsys.Type
	switch {
	case len(failed) > 0:
		return missing(name, detail+": "+strings.Join(failed, "; "), elsewhere).needed()
	case fsys.Free < minFree:
		return degraded(name, fmt.Sprintf("%s with %d MiB free", detail, fsys.Free>>20), "make room: a full disk stops sessions and landings").needed()
	case fsys.Type == "tmpfs":
		return degraded(name, detail+", which is lost at the next boot", elsewhere).needed()
	case fsys.Type == "nfs", fsys.Type == "smb2", fsys.Type == "fuse", fsys.Type == "overlay":
		return degraded(name, detail+", where views may be slow or refused", elsewhere).needed()
	}
	return ok(name, fmt.Sprintf("%s with %d GiB free", detail, fsys.Free>>30)).needed()
}
