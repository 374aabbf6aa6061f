package holder

import (
	"errors"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/masks"
)

// Descriptors of the mounter.
const (
	mounterFD = 3 // the spec comes in, the answer goes out
	tmpFD     = 4 // the host's /tmp, which the stage covers
)

// View is a copy-on-write view of one real directory.
type View struct {
	Path string // canonical, on the host and in the session
	Dev  uint64 // identity that the directory must have
	Ino  uint64
	Dir  string // the session's {upper,work} for it
	// Label is what mount tables show as the view's source.
	Label string
	// FUSE makes it a mount that the shim serves, in place of the kernel's overlay.
	FUSE bool
	// Pins is a directory of placeholders, the lowest layer; "": none are needed.
	Pins string
	// Layer is the number, from 1, of the descriptor that comes with the Spec and holds a detached clone of
	// the directory without the mounts below it; 0: none was needed.
	Layer int
}

// Link is a symbolic link of the host that is made anew in the session's root, because
// the user reaches something by it.
type Link struct {
	Path   string // its directory is canonical
	Target string
}

// Nested is a mount of the host below a view. The view cannot show it by itself.
type Nested struct {
	Path string
	// Hide leaves its mountpoint empty: a file system that may hang (FUSE, network,
	// automount) or that shows another part of a view.
	Hide bool
}

// Spec is what a session adds to the Frame. All paths are canonical.
type Spec struct {
	Views  []View // HOME first, then the project; outer before inner
	Nested []Nested
	Links  []Link
	Steps  []masks.Step // in their order
	// Placeholders are the mountpoints in Views, which have them in their Pins, and in the
	// read-only views among the steps.
	Placeholders []masks.Placeholder
	// Patterns are what the views that are FUSE hide by name.
	Patterns []masks.ViewPattern
	// Resolv is the content of /etc/resolv.conf inside.
	Resolv string
	Resume bool // the views' upper layers hold earlier work
}

// maxSpec bounds a spec: 100,000 mask steps of 4,000-byte paths do not fit and are
// refused with a decode error, not with memory.
const maxSpec = 256 << 20

// MounterMain is the mounter. It ends without a word when the shim goes before it has
// sent anything. When it has answered, it stays if there are files to follow.
func MounterMain() int {
	debug.SetGCPercent(-1) // it works for milliseconds
	unix.Umask(0)
	conn, err := ConnOf(mounterFD)
	if err != nil {
		return 1
	}
	shim := NewChannel[Answer, Spec](conn, maxSpec)
	if shim.Accept() != nil {
		return 1
	}
	spec, layers, err := shim.ReceiveFiles()
	if errors.Is(err, io.EOF) {
		return 0
	}
	b := &builder{tree: tree{opened: layers}, spec: spec, layerFiles: layers, pinned: map[string]bool{}, offer: func(devices []*os.File) error {
		return shim.Send(Answer{Devices: len(devices)}, devices)
	}}
	if err == nil {
		err = b.build()
	}
	a := Answer{Warnings: b.warnings, Mounts: b.mounts}
	if err != nil {
		a.Failure = failure(err)
	}
	if shim.Send(a, nil) != nil {
		return 1
	}
	if err != nil || len(b.keeper.files) == 0 {
		return 0
	}
	return b.keeper.run(conn)
}
