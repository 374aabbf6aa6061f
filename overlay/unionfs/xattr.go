package unionfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Marks of the format, as the kernel's overlayfs names them with userxattr.
const (
	markOpaque   = "user.overlay.opaque"
	markOrigin   = "user.overlay.origin"
	markWhiteout = "user.overlay.whiteout"
	markImpure   = "user.overlay.impure"
)

// reserved reports whether a user of the view may not see or set an attribute:
// the marks of both modes of the kernel's overlayfs.
func reserved(name string) bool {
	return strings.HasPrefix(name, "user.overlay.") || strings.HasPrefix(name, "trusted.overlay.")
}

// isOpaque reads the mark of a directory of the upper. An unreadable directory
// hides the lower: its user cannot see into it either way.
func (f *fs) isOpaque(fd int, name string) bool {
	var b [2]byte
	n, err := unix.Lgetxattr(selfAt(fd, name), markOpaque, b[:])
	if errors.Is(err, unix.EACCES) {
		return true
	}
	return err == nil && n == 1 && b[0] == 'y'
}

func (f *fs) isXattrWhiteout(fd int, name string) bool {
	_, err := unix.Lgetxattr(selfAt(fd, name), markWhiteout, nil)
	return err == nil
}

// The origin of a copied file: a header that the kernel's overlayfs takes for a
// later version and ignores (fs/overlayfs/overlayfs.h, struct ovl_fb), our name,
// then inode number and time of birth of the lower's file, and its layer.
const (
	originVersion = 0xff
	originMagic   = 0xfb
	originName    = "sbxd unionfs"
	originSize    = 4 + len(originName) + 8 + 8 + 1
)

func origin(k key, layer int) []byte {
	b := append(make([]byte, 0, originSize), originVersion, originMagic, byte(originSize), 0)
	b = append(b, originName...)
	b = binary.LittleEndian.AppendUint64(b, k.ino)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.btime))
	return append(b, byte(layer))
}

// readOrigin sets from what a file of the upper was copied.
func (f *fs) readOrigin(fd int, name string, e *entry) {
	k, ok := f.originAt(selfAt(fd, name))
	if ok {
		e.low, e.ino = k, f.mapInode(k)
	}
}

func (f *fs) originAt(path string) (key, bool) {
	var b [originSize + 1]byte
	n, err := unix.Lgetxattr(path, markOrigin, b[:])
	if err != nil || n != originSize || b[0] != originVersion || b[1] != originMagic || string(b[4:4+len(originName)]) != originName {
		return key{}, false
	}
	at := b[4+len(originName):]
	layer := int(at[16])
	if layer >= len(f.lowers) {
		return key{}, false
	}
	return key{
		dev: f.lowers[layer].dev, ino: binary.LittleEndian.Uint64(at[:]),
		btime: int64(binary.LittleEndian.Uint64(at[8:])),
	}, true
}

// withPath calls use with a path of the object of n in /proc/self/fd that names
// it and no other: calls on attributes follow the last link only there.
func (f *fs) withPath(n *node, use func(path string) error) error {
	call := func(fd int) error {
		err := use(self(fd))
		if errors.Is(err, unix.EACCES) && n.inUpper.Load() {
			return f.opened(fd, err, func() error { return use(self(fd)) })
		}
		return err
	}
	if n.dir == nil {
		if ok, err := n.useHandle(call); ok {
			return err
		}
		return f.withFD(n, call)
	}
	fd, err := f.acquire(n, f.topLayer(n))
	if err != nil {
		return err
	}
	defer n.release()
	return call(fd)
}

// withFD calls use with an O_PATH descriptor of the object of n.
func (f *fs) withFD(n *node, use func(fd int) error) error {
	return f.at(n, func(dir int, name string) error {
		if name == "" {
			return use(dir)
		}
		fd, err := openAt(dir, name, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var st unix.Statx_t
		if err := statAt(fd, "", &st); err != nil {
			return err
		}
		if err := f.same(n, &st); err != nil {
			return err
		}
		return use(fd)
	})
}

// GetXAttr answers getxattr(2).
func (f *fs) GetXAttr(_ <-chan struct{}, h *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	if reserved(attr) {
		return 0, fuse.ENODATA
	}
	n, err := f.node(h.NodeId)
	if err != nil {
		return 0, status(err)
	}
	size, err := f.getAttr(n, attr, dest)
	if errors.Is(err, unix.ERANGE) {
		if size, err = f.getAttr(n, attr, nil); err == nil {
			return uint32(size), fuse.ERANGE
		}
	}
	if err != nil {
		return 0, status(err)
	}
	return uint32(size), fuse.OK
}

func (f *fs) getAttr(n *node, attr string, dest []byte) (size int, err error) {
	if n.dir == nil {
		// Open, as it is while it is written to, when the kernel asks for its capabilities.
		ok, err := n.useHandle(func(fd int) (err error) {
			size, err = unix.Fgetxattr(fd, attr, dest)
			return err
		})
		if ok && !errors.Is(err, unix.EACCES) {
			return size, err
		}
	}
	err = f.withPath(n, func(path string) (err error) {
		size, err = unix.Getxattr(path, attr, dest)
		return err
	})
	return size, err
}

// ListXAttr answers listxattr(2) without the marks.
func (f *fs) ListXAttr(_ <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	n, err := f.node(h.NodeId)
	if err != nil {
		return 0, status(err)
	}
	var names []byte
	err = f.withPath(n, func(path string) error {
		all, err := listAttrs(path)
		for _, name := range all {
			if !reserved(name) {
				names = append(append(names, name...), 0)
			}
		}
		return err
	})
	switch {
	case err != nil:
		return 0, status(err)
	case len(dest) > 0 && len(dest) < len(names):
		return uint32(len(names)), fuse.ERANGE
	}
	copy(dest, names)
	return uint32(len(names)), fuse.OK
}

// listAttrs returns the names of all attributes.
func listAttrs(path string) ([]string, error) {
	buf := make([]byte, 1024)
	for {
		n, err := unix.Listxattr(path, buf)
		switch {
		case errors.Is(err, unix.ERANGE) && len(buf) < 1<<16:
			buf = make([]byte, 1<<16)
			continue
		case errors.Is(err, unix.EOPNOTSUPP):
			return nil, nil
		case err != nil:
			return nil, err
		}
		var names []string
		for name := range bytes.SplitSeq(buf[:n], []byte{0}) {
			if len(name) > 0 {
				names = append(names, string(name))
			}
		}
		return names, nil
	}
}

// SetXAttr answers setxattr(2).
func (f *fs) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	return f.changeXattr(cancel, &in.InHeader, attr, func(path string) error {
		return unix.Setxattr(path, attr, data, int(in.Flags))
	})
}

// RemoveXAttr answers removexattr(2).
func (f *fs) RemoveXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string) fuse.Status {
	return f.changeXattr(cancel, h, attr, func(path string) error {
		return unix.Removexattr(path, attr)
	})
}

// changeXattr changes an attribute of the upper's object. What would fail for
// lack of the attribute fails before anything is copied.
func (f *fs) changeXattr(cancel <-chan struct{}, h *fuse.InHeader, attr string, change func(path string) error) fuse.Status {
	n, err := f.node(h.NodeId)
	if err != nil {
		return status(err)
	}
	if reserved(attr) {
		f.note(Refused, n, h.Pid)
		return fuse.EPERM
	}
	if !n.inUpper.Load() {
		err := f.withPath(n, func(path string) error {
			_, err := unix.Getxattr(path, attr, nil)
			return err
		})
		if err != nil && !errors.Is(err, unix.ENODATA) {
			return status(err)
		}
		if errors.Is(err, unix.ENODATA) && h.Opcode == opRemoveXattr {
			return fuse.ENODATA
		}
	}
	if err := f.raise(n, cancel, h.Pid, false); err != nil {
		return status(err)
	}
	f.note(Attributes, n, h.Pid)
	return status(f.withPath(n, change))
}

// opRemoveXattr is FUSE_REMOVEXATTR.
const opRemoveXattr = 24
