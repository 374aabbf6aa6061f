package shim

import (
	"fmt"
	"os/user"
	"strconv"

	"github.com/sbxd/sbxd/session"
)

// defaultPath is the search path of a session whose caller passed none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environ is the environment of every command of the session: built from nothing, then
// the names that the caller listed. The last of a name wins.
func environ(r session.Record, user string, given []string) []string {
	env := []string{
		"HOME=" + r.Home.Spelled,
		"PATH=" + defaultPath,
		"SHELL=/bin/sh",
		"TMPDIR=/tmp",
		fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", r.UID),
		"SBXD_SESSION=" + string(r.ID),
	}
	if user != "" {
		env = append(env, "USER="+user, "LOGNAME="+user)
	}
	return append(env, given...)
}

// userName is the login name of uid, or "" for a uid without a passwd entry.
func userName(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.Username
}
