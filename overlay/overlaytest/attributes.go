package overlaytest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// attributes tests modes and extended attributes, before and after copy-up.
func (s *suite) attributes(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *view){
		"user attributes":   userAttributes,
		"access lists":      accessLists,
		"set-id and sticky": setID,
		"times":             times,
		"foreign owner":     foreignOwner,
	} {
		t.Run(name, func(t *testing.T) {
			v := s.newView(t, func(lower string) error {
				return errors.Join(script(lower, `echo f >f; mkdir d; echo x >d/x; chmod 640 f`),
					unix.Setxattr(lower+"/f", "user.note", []byte("lower"), 0),
					unix.Setxattr(lower+"/f", "user.gone", []byte("x"), 0))
			})
			f(t, v)
			v.consistent(nil)
		})
	}
}

func userAttributes(_ *testing.T, v *view) {
	v.agent(func() error {
		f, d := v.P+"/f", v.P+"/d"
		err := errors.Join(
			attrIs(f, "user.note", "lower"),
			unix.Setxattr(f, "user.note", []byte("view"), unix.XATTR_REPLACE),
			unix.Removexattr(f, "user.gone"),
			unix.Setxattr(d, "user.bin", []byte("\x00\xff"), unix.XATTR_CREATE),
			attrIs(f, "user.note", "view"), attrIs(d, "user.bin", "\x00\xff"),
		)
		for path, names := range map[string]string{f: "user.note\x00", d: "user.bin\x00"} {
			var b [256]byte
			n, e := unix.Listxattr(path, b[:])
			err = errors.Join(err, e, want("attributes", string(b[:max(n, 0)]), names))
		}
		return err
	})
}

func attrIs(path, name, value string) error {
	var b [256]byte
	n, err := unix.Lgetxattr(path, name, b[:])
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return want(name, string(b[:n]), value)
}

// accessLists sets POSIX ACLs by their attribute (acl(5); linux/posix_acl_xattr.h).
func accessLists(t *testing.T, v *view) {
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][2]uint16{{1, 6}, {4, 4}, {0x10, 4}, {0x20, 0}} { // owner, group, mask, other
		acl = binary.LittleEndian.AppendUint16(acl, e[0])
		acl = binary.LittleEndian.AppendUint16(acl, e[1])
		acl = binary.LittleEndian.AppendUint32(acl, 0xffffffff)
	}
	const name = "system.posix_acl_access"
	if err := unix.Setxattr(v.lower+"/d/x", name, acl, 0); err != nil {
		t.Skipf("needs access lists: %v", err)
	}
	v.before = v.tree(v.lower)
	v.remount()
	v.agent(func() error {
		return errors.Join(attrIs(v.P+"/d/x", name, string(acl)), os.WriteFile(v.P+"/d/x", []byte("up"), 0o600),
			attrIs(v.P+"/d/x", name, string(acl)))
	})
}

func setID(_ *testing.T, v *view) {
	v.agent(func() error {
		err := errors.Join(unix.Chmod(v.P+"/f", 0o4750), unix.Chmod(v.P+"/d", 0o3770))
		var st unix.Stat_t
		err = errors.Join(err, unix.Lstat(v.P+"/f", &st), want("mode", st.Mode&0o7777, 0o4750))
		return errors.Join(err, unix.Lstat(v.P+"/d", &st), want("mode", st.Mode&0o7777, 0o3770))
	})
}

func times(_ *testing.T, v *view) {
	v.agent(func() error {
		ts := []unix.Timespec{{Sec: 1, Nsec: 5}, {Sec: 1_000_000_007, Nsec: 123_456_789}}
		err := unix.UtimesNanoAt(unix.AT_FDCWD, v.P+"/f", ts, 0)
		var st unix.Stat_t
		return errors.Join(err, unix.Lstat(v.P+"/f", &st), want("mtime", st.Mtim, ts[1]))
	})
}

// foreignOwner works on a file whose owner the namespace does not map: it can be
// read and removed, not changed, and is never damaged.
func foreignOwner(t *testing.T, v *view) {
	dir := os.Getenv(foreignEnv)
	if dir == "" {
		t.Skip("needs root outside, to make a file of another owner")
	}
	v.unmount()
	v.lower, v.frozen = dir, false
	before := v.tree(dir)
	v.mount()
	v.agent(func() error {
		f, err := os.OpenFile(v.P+"/file", os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString("more\n")
			err = errors.Join(err, f.Close(), content(v.P+"/file", "foreign\nmore\n"))
		} else if errors.Is(err, unix.EOVERFLOW) || errors.Is(err, unix.EACCES) { // a FUSE says EACCES
			err = content(v.P+"/file", "foreign\n")
		}
		return errors.Join(err, os.Remove(v.P+"/gone"))
	})
	if diff := before.Diff(v.tree(dir)); diff != "" {
		t.Errorf("the lower was changed:\n%s", diff)
	}
}
