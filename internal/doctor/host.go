package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/sbxd/sbxd/internal/landlock"
	"github.com/sbxd/sbxd/internal/probe"
)

// The oldest kernel that is supported.
const (
	minMajor = 5
	minMinor = 15
)

func trim(b []byte) string { return strings.TrimSpace(string(b)) }

func kernelVersion(release string) Check {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return degraded("kernel", fmt.Sprintf("its version %q cannot be read", release), "check that it is Linux 5.15 or later")
	}
	if major < minMajor || major == minMajor && minor < minMinor {
		return missing("kernel", "Linux "+release, fmt.Sprintf("use Linux %d.%d or later", minMajor, minMinor)).needed()
	}
	return ok("kernel", "Linux "+release).needed()
}

func userNamespaces(o Options) Check {
	return judgeUserns(probe.UserNSAs(o.UID, o.GID), o.UID, sysctl)
}

// judgeUserns explains why user namespaces do not work by the switches that are known
// to forbid them.
func judgeUserns(err error, uid int, sysctl func(string) string) Check {
	const name = "userns"
	if err == nil {
		detail := fmt.Sprintf("uid %d can make them", uid)
		if sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1" {
			detail += " (AppArmor restricts them, and lets this program)"
		}
		return ok(name, detail).needed()
	}
	set := func(key, value string) string {
		return fmt.Sprintf("sysctl -w %s=%s, and the same line in a file of /etc/sysctl.d", key, value)
	}
	detail := fmt.Sprintf("uid %d cannot make them: %v", uid, err)
	switch {
	case sysctl("user/max_user_namespaces") == "0":
		return missing(name, detail, set("user.max_user_namespaces", "15000")).needed()
	case sysctl("kernel/unprivileged_userns_clone") == "0":
		return missing(name, detail, set("kernel.unprivileged_userns_clone", "1")).needed()
	case sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return missing(name, detail+"; AppArmor restricts them",
			"as root: apparmor_parser -r /etc/apparmor.d/sbxd (comes with sbxd as deploy/apparmor/sbxd)").needed()
	}
	return missing(name, detail,
		"allow them: a container's seccomp filter or another security module forbids them (docker run --security-opt seccomp=unconfined)").needed()
}

func landlocked() Check {
	v, err := probe.LandlockABI()
	return judgeLandlock(v, err)
}

func judgeLandlock(v int, err error) Check {
	const name = "landlock"
	detail := fmt.Sprintf("version %d", v)
	switch {
	case err != nil:
		return missing(name, err.Error(), "boot with landlock in the lsm= list, use a newer kernel, or run outside of the container; sessions run without this second layer")
	case v < landlock.MinABI:
		return missing(name, detail+" refuses every rename across directories, so it is not used", "use Linux 5.19 or later")
	case v < landlock.ScopeABI:
		return degraded(name, detail+" cannot cut off abstract sockets, so --network open is refused", "use Linux 6.12 or later")
	}
	return ok(name, detail)
}

func seccompNotify() Check {
	const name = "seccomp-notify"
	if err := probe.SeccompNotify(); err != nil {
		return missing(name, err.Error(), "use a kernel with CONFIG_SECCOMP_FILTER; nothing of this version needs it")
	}
	return ok(name, "the kernel has it; nothing of this version needs it")
}

func fuse() Check {
	return judgeDevice("fuse", "/dev/fuse", "fuse", probe.Fuse(), "only the unionfs backend needs it")
}

func tun() Check {
	return judgeDevice("tun", "/dev/net/tun", "tun", probe.Tun(), "only the filtered network needs it")
}

func judgeDevice(name, path, module string, err error, what string) Check {
	switch {
	case err == nil:
		return ok(name, path+" can be opened")
	case errors.Is(err, fs.ErrPermission):
		return missing(name, fmt.Sprintf("%v; %s", err, what), "chmod 0666 "+path+" (udev does it elsewhere)")
	}
	return missing(name, fmt.Sprintf("%v; %s", err, what), "modprobe "+module)
}

// What a daemon with 200 sessions, and an editor beside it, use.
const (
	minInstances = 16
	minWatches   = 8192
)

func inotify(sysctl func(string) string) Check {
	const name = "inotify"
	var low []string
	for _, l := range []struct {
		key  string
		most int
	}{{"max_user_instances", minInstances}, {"max_user_watches", minWatches}} {
		v := sysctl("fs/inotify/" + l.key)
		n, err := strconv.Atoi(v)
		if err != nil {
			return missing(name, "the kernel has none", "use a kernel with CONFIG_INOTIFY_USER")
		}
		if n < l.most {
			low = append(low, fmt.Sprintf("fs.inotify.%s=%d", l.key, n))
		}
	}
	if len(low) > 0 {
		return degraded(name, strings.Join(low, ", ")+" is little: changes are then found by a timer",
			fmt.Sprintf("sysctl -w fs.inotify.max_user_instances=%d fs.inotify.max_user_watches=%d", 8*minInstances, 8*minWatches))
	}
	return ok(name, fmt.Sprintf("at least %d instances and %d watches", minInstances, minWatches))
}

// written is a time that has certainly passed.
var written = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func clock(now time.Time) Check {
	if now.Before(written) {
		return degraded("clock", "it says "+now.UTC().Format(time.RFC3339), "set it; what is young or old is told by it")
	}
	return ok("clock", "it says "+now.UTC().Format(time.RFC3339))
}
