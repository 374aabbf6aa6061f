package holder

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
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
	// Pins is a directory of placeholders, the lowest layer; "": none are needed.
	Pins string
	// Layer is the number, from 1, of the file of SendSpec that holds a detached clone of
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
	// Placeholders of the read-only views among the steps; those of Views are in their
	// Pins.
	Placeholders []masks.Placeholder
	// Resolv is the content of /etc/resolv.conf inside.
	Resolv string
	Resume bool // the views' upper layers hold earlier work
}

// SendSpec gives the mounter its work. It answers once, with an Answer.
func SendSpec(conn *net.UnixConn, spec Spec, layers []*os.File) error {
	if err := SendFiles(conn, layers); err != nil {
		return err
	}
	return gob.NewEncoder(conn).Encode(spec)
}

// maxSpec bounds a spec: 100,000 mask steps of 4,000-byte paths do not fit and are
// refused with a decode error, not with memory.
const maxSpec = 256 << 20

// MounterMain is the mounter. It ends without a word when the shim goes before it has
// sent anything.
func MounterMain() int {
	debug.SetGCPercent(-1) // it works for milliseconds
	unix.Umask(0)
	conn, err := connOf(mounterFD)
	if err != nil {
		return 1
	}
	rehearse()
	spec, layers, err := receiveSpec(conn)
	if errors.Is(err, io.EOF) {
		return 0
	}
	b := &builder{spec: spec, layerFiles: layers, pinned: map[string]bool{}}
	if err == nil {
		err = b.build()
	}
	a := Answer{Warnings: b.warnings}
	if err != nil {
		a.Failure = failure(err)
	}
	if err := gob.NewEncoder(conn).Encode(a); err != nil {
		return 1
	}
	return 0
}

// rehearse reads a spec for nothing while there is time: gob finds out about a type the
// first time it sees it.
func rehearse() {
	var b bytes.Buffer
	var s Spec
	_ = gob.NewEncoder(&b).Encode(Spec{Steps: []masks.Step{{}}})
	_ = gob.NewDecoder(&b).Decode(&s)
}

func receiveSpec(conn *net.UnixConn) (spec Spec, layers []*os.File, err error) {
	if layers, err = ReceiveFiles(conn); err != nil {
		return spec, nil, err
	}
	if err = gob.NewDecoder(io.LimitReader(conn, maxSpec)).Decode(&spec); err != nil {
		err = fmt.Errorf("read the spec: %w", err)
	}
	return spec, layers, err
}
