package session

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/hostpath"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/masks"
)

// MaxPath is the longest path of a project or HOME, in bytes (PATH_MAX less a margin
// for the names below it).
const MaxPath = 4000

// pseudo are trees that are the kernel's; nobody works in them.
var pseudo = []string{"/proc", "/sys", "/dev"}

// Resolve finds out where a session works: the canonical paths behind the spelled ones
// of w.Record, with the identity of each. It looks with the rights of the calling
// process, which has to have the session's uid. An *api.Error says which rule refuses a
// place and what to do.
func Resolve(w Work) (Places, error) {
	home, st, err := resolve("HOME", w.Record.Home.Spelled)
	if err != nil {
		return Places{}, err
	}
	if int(st.UID) != w.Record.UID {
		// Whose it is our user namespace may not know.
		return Places{}, refuse("set HOME to a directory of that user's",
			"HOME %s does not belong to the session's user, uid %d", home.Real, w.Record.UID)
	}
	project, _, err := resolve("project", w.Record.Project.Spelled)
	if err != nil {
		return Places{}, err
	}
	p := Places{Project: project, Home: home}
	if err := p.check(w.Root); err != nil {
		return p, err
	}
	if err := unix.Access(project.Real, unix.R_OK|unix.X_OK); err != nil {
		return p, unreachable("project", project.Spelled, err)
	}
	return p, p.tighten(w.Trust)
}

func refuse(hint, format string, args ...any) error {
	return &api.Error{Code: api.ExitRefused, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// check refuses what would put a view above its own parts.
func (p Places) check(root string) error {
	project, home := p.Project.Real, p.Home.Real
	for i, path := range []string{project, home} {
		what := []string{"project", "HOME"}[i]
		if path == "/" {
			return refuse("name a directory", "the %s is the root directory", what)
		}
		for _, k := range pseudo {
			if hostpath.Within(path, k) {
				return refuse("name a directory on a file system", "the %s %s lies in %s", what, path, k)
			}
		}
		if root == "" {
			continue
		}
		if hostpath.Within(root, path) {
			return refuse("set SBXD_STATE to a directory outside", "the state root %s lies in the %s %s", root, what, path)
		}
		if hostpath.Within(path, root) {
			return refuse("use another directory", "the %s %s lies in the state root %s", what, path, root)
		}
	}
	if hostpath.Within(home, project) && home != project {
		return refuse("name a directory below HOME, or elsewhere", "the project %s is above HOME %s", project, home)
	}
	return nil
}

func resolve(what, spelled string) (Place, safefs.Stat, error) {
	var st safefs.Stat
	if err := CheckPath(what, spelled); err != nil {
		return Place{}, st, err
	}
	real, err := filepath.EvalSymlinks(spelled)
	if err != nil {
		return Place{}, st, unreachable(what, spelled, err)
	}
	if len(real) > MaxPath || !utf8.ValidString(real) {
		return Place{}, st, refuse("reach it by another path", "the %s %.80q leads to a path that is not UTF-8 or longer than %d bytes", what, spelled, MaxPath)
	}
	dir, err := safefs.OpenReal(real)
	if err != nil {
		return Place{}, st, unreachable(what, spelled, err)
	}
	defer dir.Close()
	if st, err = safefs.StatFD(dir.Fd()); err != nil {
		return Place{}, st, unreachable(what, spelled, err)
	}
	p := Place{Spelled: filepath.Clean(spelled), Real: real, Dev: st.Dev, Ino: st.Ino}
	if st.Btime != (safefs.Time{}) {
		p.BTime = st.Btime.Time().UnixNano()
	}
	return p, st, nil
}

func unreachable(what, path string, err error) error {
	why := err
	if in := errors.Unwrap(err); in != nil {
		why = in // without the path, which stands in the message already
	}
	e := &api.Error{
		Code: api.ExitFailed, Message: fmt.Sprintf("the %s %.200q: %v", what, path, why),
		Hint: "name a directory that the session's user can read",
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.Message = api.ExitNotFound, fmt.Sprintf("the %s %.200q does not exist", what, path)
	case errors.Is(err, unix.ENOTDIR):
		e.Code, e.Message = api.ExitRefused, fmt.Sprintf("the %s %.200q is not a directory", what, path)
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Message = api.ExitDenied, fmt.Sprintf("the %s %.200q cannot be read with the session's rights", what, path)
	}
	return e
}

// CheckPath tells why a path as it was spelled cannot be used, before anybody looks at
// the file system: an *api.Error.
func CheckPath(what, path string) error {
	var why string
	switch {
	case path == "":
		why = "is empty"
	case strings.IndexByte(path, 0) >= 0:
		why = "holds a NUL byte"
	case !utf8.ValidString(path):
		why = "is not UTF-8"
	case len(path) > MaxPath:
		why = fmt.Sprintf("is longer than %d bytes", MaxPath)
	case path[0] != '/':
		why = "is relative"
	case strings.Contains(path+"/", "/../"):
		why = `holds "..", which a link can turn elsewhere`
	default:
		return nil
	}
	return &api.Error{
		Code: api.ExitUsage, Message: fmt.Sprintf("the %s path %.80q %s", what, path, why),
		Hint: "give an absolute path",
	}
}

// Prepare makes the directories of w's session, mode 0700, the directory that holds the
// sessions, and the agent's own. It runs with the session's uid.
func Prepare(w Work) (warnings []string, err error) {
	for _, name := range append([]string{"..", "."}, DataDirs...) {
		if err := mkdir(filepath.Join(w.Dir, name)); err != nil {
			return nil, fmt.Errorf("making the session's directories: %w", err)
		}
	}
	return masks.MakeOwnDirs(w.Own)
}
