package overlay

import (
	"fmt"
	"slices"
	"strings"
)

// ns is where overlayfs keeps its marks in a user namespace (mount option
// userxattr). A user of the view cannot write there: what it calls
// user.overlay.X is stored as user.overlay.overlay.X (Linux 6.7) or refused.
const ns = "user.overlay."

// foreign are the name spaces of marks that an upper of ours never has: those of
// privileged overlayfs, of fuse-overlayfs, and of containers/storage.
var foreign = []string{
	"security.fuseoverlayfs.",
	"trusted.fuseoverlayfs.",
	"trusted.overlay.",
	"user.containers.override_stat",
	"user.fuseoverlayfs.",
}

// verdict is what the marks of one entry say.
type verdict struct {
	whiteout, opaque bool
	copiedUp         bool
	forged           []Mark // Path is not set
	user             map[string][]byte
	others           []string
}

// judge reads the extended attributes of one entry (fs/overlayfs/xattrs.c,
// overlayfs.h of Linux 6.18). It is pure; whatever attrs holds, it gives a
// verdict or ErrUnsupportedUpper.
func judge(t Type, size int64, attrs map[string][]byte) (verdict, error) {
	var v verdict
	names := make([]string, 0, len(attrs))
	for n := range attrs {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, name := range names {
		value := attrs[name]
		switch {
		case strings.HasPrefix(name, ns):
			if err := v.mark(t, size, name, value); err != nil {
				return verdict{}, err
			}
		case isForeign(name):
			v.forge(MarkForeign, name)
		case strings.HasPrefix(name, "user."):
			if v.user == nil {
				v.user = map[string][]byte{}
			}
			v.user[name] = value
		case name != "security.selinux": // a label of the host on every file
			v.others = append(v.others, name)
		}
	}
	return v, nil
}

func (v *verdict) mark(t Type, size int64, name string, value []byte) error {
	switch key := strings.TrimPrefix(name, ns); {
	case strings.HasPrefix(key, "overlay."):
		v.forge(MarkEscaped, name)
	case key == "opaque" && t != Dir, key == "whiteout" && (t != File || size != 0):
		v.forge(MarkMisplace, name)
	case key == "opaque" && string(value) == "y":
		v.opaque = true
	case key == "opaque" && string(value) == "x": // holds xattr whiteouts, which are looked for anyway
	case key == "opaque":
		v.forge(MarkValue, name)
	case key == "whiteout":
		v.whiteout = true
		v.forge(MarkXattrWh, name)
	case key == "origin":
		v.copiedUp = true
	case slices.Contains([]string{"impure", "protattr", "uuid"}, key): // say nothing about the tree
	case slices.Contains([]string{"metacopy", "nlink", "redirect", "upper", "verity"}, key):
		return fmt.Errorf("%w: %s", ErrUnsupportedUpper, name)
	default:
		v.forge(MarkUnknown, name)
	}
	return nil
}

func (v *verdict) forge(what, name string) {
	v.forged = append(v.forged, Mark{What: what, Name: name})
}

func isForeign(name string) bool {
	return slices.ContainsFunc(foreign, func(p string) bool { return strings.HasPrefix(name, p) })
}
