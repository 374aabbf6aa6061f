package daemon

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// owner is who a session will run as, and the HOME that the passwd file gives.
type owner struct {
	session.Cred
	home string
}

// ownerFor decides who the session runs as: the caller; for root the user that it or
// the daemon's configuration names, never uid 0.
func (d *Daemon) ownerFor(c caller, runAs string) (owner, error) {
	if d.uid != 0 {
		if err := checkRunAs(d.uid, runAs); err != nil {
			return owner{}, err
		}
		return d.sameUser()
	}
	if c.UID != 0 {
		o := known(c.UID)
		o.GID = c.GID
		if runAs != "" {
			named, err := lookup(runAs)
			if err != nil {
				return o, err
			}
			if named.UID != c.UID {
				return o, denied("only root may run a session as another user")
			}
		}
		return o, nil
	}
	if runAs == "" {
		runAs = d.opt.RunAs
	}
	if runAs == "" {
		return owner{}, refused("name a user: --run-as USER", "a session never runs as root")
	}
	if err := checkRunAs(d.uid, runAs); err != nil {
		return owner{}, err
	}
	return lookup(runAs)
}

// checkRunAs refuses a name that the daemon of uid cannot run sessions as, whoever asks
// for it. An empty one names nobody.
func checkRunAs(uid int, runAs string) error {
	if runAs == "" {
		return nil
	}
	o, err := lookup(runAs)
	switch {
	case err != nil:
		return err
	case uid != 0 && o.UID != uid:
		return denied(fmt.Sprintf("this daemon runs sessions as uid %d only", uid))
	case uid == 0 && (o.UID == 0 || o.GID == 0):
		return refused("name another user: --run-as USER", "a session never runs with uid or gid 0, and %.40q has it", runAs)
	}
	return nil
}

// sameUser is a user's daemon itself: its ids come from the kernel, so that a uid that
// no passwd file knows works as well.
func (d *Daemon) sameUser() (owner, error) {
	groups, err := os.Getgroups()
	if err != nil {
		return owner{}, fmt.Errorf("reading our groups: %w", err)
	}
	o := known(d.uid)
	o.GID, o.Groups = os.Getegid(), groups
	return o, nil
}

// known is a uid with what the passwd and group files say of it, if anything.
func known(uid int) owner {
	o := owner{Cred: session.Cred{UID: uid, GID: uid}}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		o.fill(u)
	}
	return o
}

func (o *owner) fill(u *user.User) {
	o.home = u.HomeDir
	if gid, err := strconv.Atoi(u.Gid); err == nil {
		o.GID = gid
	}
	ids, _ := u.GroupIds()
	for _, s := range ids {
		if gid, err := strconv.Atoi(s); err == nil {
			o.Groups = append(o.Groups, gid)
		}
	}
}

// maxID is the largest uid or gid that is one: the two above mean nobody.
const maxID = 1<<32 - 3

// lookup reads a user as people write it: a name, a uid, or uid:gid.
func lookup(s string) (owner, error) {
	if u, err := user.Lookup(s); err == nil {
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return owner{}, usage("user %.40q has no number", s)
		}
		o := owner{Cred: session.Cred{UID: uid, GID: uid}}
		o.fill(u)
		return o, nil
	}
	uids, gids, two := strings.Cut(s, ":")
	uid, err := strconv.ParseUint(uids, 10, 32)
	if err != nil || uid > maxID {
		return owner{}, &api.Error{Code: api.ExitNotFound, Message: fmt.Sprintf("there is no user %.40q", s), Hint: "give a name, a uid, or uid:gid"}
	}
	o := known(int(uid))
	if two {
		gid, err := strconv.ParseUint(gids, 10, 32)
		if err != nil || gid > maxID {
			return owner{}, usage("user %.40q: its group is no number", s)
		}
		o.GID = int(gid)
	}
	return o, nil
}
