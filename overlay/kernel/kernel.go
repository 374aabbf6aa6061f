// Package kernel is the overlay backend on the kernel's own overlayfs.
//
// The one idea: layers are descriptors, never paths, so a directory with any
// name, any depth and any owner of its parents can be a layer, and nothing is
// looked up twice. It knows the ways in which kernels since 5.15 take
// descriptors, and which options keep an upper decodable. It must not know who
// asks for a view, nor where it will be attached.
package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/feature"
	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/overlay"
)

// Backend mounts overlayfs in the caller's user namespace.
type Backend struct{}

var _ overlay.Backend = Backend{}

// Name returns "kernel".
func (Backend) Name() string { return "kernel" }

// source is what mount tables show in the first column unless the caller says.
const source = "sbxd"

// options are those of every view. userxattr is what a user namespace may use.
// The others keep lower paths and handles out of the upper, since the lower is a
// live tree and the decoder refuses such marks. redirect_dir must be nofollow
// and not off: where the module's redirect_always_follow is set (Debian), off
// means follow, which userxattr forbids.
var options = [][2]string{{"redirect_dir", "nofollow"}, {"metacopy", "off"}, {"index", "off"}}

// Mount returns the view that s describes as a detached mount without set-id
// and devices.
//
// The calling thread needs CAP_SYS_ADMIN in its user namespace, and every
// descriptor must have been opened in its mount namespace. Overlayfs does all
// later work with the credentials of this call, whoever uses the view, so the
// thread should hold every capability of its namespace, CAP_DAC_OVERRIDE and
// CAP_MKNOD among them. Errors are *overlay.MountError; one of them wraps a
// *NestedError.
func (Backend) Mount(s overlay.Spec) (*os.File, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var last error
	for _, w := range ways() {
		fd, err := mount(s, w)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), "overlay"), nil
		case !unknownWay(err):
			return nil, explain(s, err)
		}
		last = err
	}
	return nil, last
}

// way is one manner of telling the kernel the layers of a view.
type way struct {
	name string
	set  func(*mnt.Context, overlay.Spec) error
}

// ways are those to try here, best first.
func ways() []way {
	all := []way{
		{"descriptors", setDescriptors}, // Linux 6.13; O_PATH ones 6.15
		{"lowerdir+", setAppended},      // Linux 6.7
		{"lowerdir", setJoined},         // any; a page of text, so at most MaxLowers
	}
	if feature.Off(feature.FDLowerdir) {
		return all[2:]
	}
	return all
}

// unknownWay reports whether err is what a kernel answers that does not know a
// way: to a key or a type of value it has not heard of (EINVAL), to O_PATH
// descriptors (EBADF).
func unknownWay(err error) bool {
	var e *overlay.MountError
	return errors.As(err, &e) && e.Op == opLayer && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EBADF))
}

// opLayer is the step that the ways differ in.
const opLayer = "set layer"

func mount(s overlay.Spec, w way) (int, error) {
	c, err := mnt.Open("overlay")
	if err != nil {
		return -1, mountError("open file system", "", nil, err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Set("source", cmp.Or(s.Source, source)); err != nil {
		return -1, mountError("set source", "", nil, err)
	}
	if err := c.SetFlag("userxattr"); err != nil {
		return -1, mountError("set userxattr", "", nil, err)
	}
	for _, o := range options {
		if err := c.Set(o[0], o[1]); err != nil {
			return -1, mountError("set "+o[0], "", nil, err)
		}
	}
	if err := w.set(c, s); err != nil {
		return -1, err
	}
	fd, err := c.Mount(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return -1, mountError("create", "", nil, err)
	}
	return fd, nil
}

func setDescriptors(c *mnt.Context, s overlay.Spec) error {
	return eachLayer(s, func(key string, f *os.File) error { return c.SetFD(key, int(f.Fd())) })
}

func setAppended(c *mnt.Context, s overlay.Spec) error {
	return eachLayer(s, func(key string, f *os.File) error { return c.Set(key, mnt.Name(int(f.Fd()))) })
}

// setJoined builds the one string of older kernels. A descriptor's path has
// neither ':' nor ',', so nothing is escaped.
func setJoined(c *mnt.Context, s overlay.Spec) error {
	lowers := ""
	for i, l := range s.Lowers {
		if i > 0 {
			lowers += ":"
		}
		lowers += mnt.Name(int(l.Fd()))
	}
	if err := c.Set("lowerdir", lowers); err != nil {
		return mountError(opLayer, "lower", s.Lowers[0], err)
	}
	return setUpper(s, func(key string, f *os.File) error { return c.Set(key, mnt.Name(int(f.Fd()))) })
}

func eachLayer(s overlay.Spec, set func(key string, f *os.File) error) error {
	for i, l := range s.Lowers {
		if err := set("lowerdir+", l); err != nil {
			return mountError(opLayer, fmt.Sprintf("lower %d", i), l, err)
		}
	}
	return setUpper(s, set)
}

func setUpper(s overlay.Spec, set func(key string, f *os.File) error) error {
	if s.Upper == nil {
		return nil
	}
	if err := set("upperdir", s.Upper); err != nil {
		return mountError(opLayer, "upper", s.Upper, err)
	}
	if err := set("workdir", s.Work); err != nil {
		return mountError(opLayer, "work", s.Work, err)
	}
	return nil
}

// mountError wraps what mnt reports, with the layer's path as the kernel names
// it: for people, never to be opened.
func mountError(op, target string, layer *os.File, err error) error {
	e := &overlay.MountError{Op: op, Target: target, Err: err}
	var m *mnt.Error
	if errors.As(err, &m) {
		e.Detail, e.Err = m.Detail, m.Err
	}
	if layer != nil {
		e.Source, _ = os.Readlink(mnt.Name(int(layer.Fd())))
	}
	return e
}

// explain finds out why the kernel refused to create the view where its errno
// alone does not tell.
func explain(s overlay.Spec, err error) error {
	var e *overlay.MountError
	if !errors.As(err, &e) || !errors.Is(err, unix.EINVAL) {
		return err
	}
	var points []string
	for _, l := range s.Lowers {
		points = append(points, nested(l)...)
	}
	if len(points) > 0 {
		slices.Sort(points)
		e.Err = &NestedError{Points: slices.Compact(points), Err: e.Err}
	}
	return e
}
