// Package holder builds what a session sees. Its process is the first one of the
// session's namespaces: it owns a private mount namespace, puts a complete root
// together below one small tmpfs, each piece reached by descriptor, and then becomes
// bubblewrap, which only has to bind that finished tree. So no path of a user or of
// an agent is ever resolved by anybody but this package, and every mount vanishes
// with the session's last process.
//
// It knows mounts and the order in which they are laid. It must not know why a path
// is masked (package masks decides), nor anything of the daemon.
package holder

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/sbxd/sbxd/bwrap"
	"github.com/sbxd/sbxd/internal/feature"
	"github.com/sbxd/sbxd/masks"
)

// Descriptors that the shim gives to the holder.
const (
	ControlFD = 3 // the spec comes in, an error goes out; closed by execve
	GuestFD   = 4 // the guest's end of its socket to the shim; passed on
	StatusFD  = 5 // bubblewrap's --json-status-fd
	LayerFD   = 6 // further ones, in the order of Spec.Layers
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
	// Layer is the number of an inherited descriptor (LayerFD + Layer - 1) that holds a
	// detached clone of the directory without the mounts below it; 0: none was needed.
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

// Spec is everything a holder needs. All paths are canonical.
type Spec struct {
	UID    int
	Views  []View // HOME first, then the project; outer before inner
	Nested []Nested
	Links  []Link
	Steps  []masks.Step // in their order
	// Placeholders of the read-only views among the steps; those of Views are in their
	// Pins.
	Placeholders []masks.Placeholder
	// Bwrap is the bubblewrap to become and what it can do.
	Bwrap bwrap.Findings
	// Resolv is the content of /etc/resolv.conf inside.
	Resolv  string
	Resume  bool  // the views' upper layers hold earlier work
	OpenNet bool  // the host's network namespace is shared
	TmpSize int64 // bytes, of /tmp and of /var/tmp each
	ShmSize int64 // bytes, of /dev/shm
}

// Failure is what the holder says before it ends without having become bubblewrap.
type Failure struct {
	Step    string
	Message string
}

func (f *Failure) Error() string { return f.Message }

// Ready is what the holder says before execve, or instead of it.
type Ready struct {
	Failure  *Failure
	Warnings []string
}

// Main is the process: it never returns except by exit of the caller with its code.
// The process was cloned into new user, mount and (unless the network is open) network
// namespaces with every capability ambient.
func Main() int {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // it lives for milliseconds
	control := os.NewFile(ControlFD, "control")
	answer := gob.NewEncoder(control)
	err := run(control, answer)
	f := Failure{Message: err.Error()}
	var s *stepError
	if errors.As(err, &s) {
		f.Step = s.step
	}
	_ = answer.Encode(Ready{Failure: &f})
	return 1
}

// run returns only with an error: otherwise the process has become bubblewrap.
func run(control io.Reader, answer *gob.Encoder) error {
	if err := prepare(); err != nil {
		return err
	}
	var spec Spec
	if err := gob.NewDecoder(io.LimitReader(control, maxSpec)).Decode(&spec); err != nil {
		return fmt.Errorf("read the spec: %w", err)
	}
	b := &builder{spec: spec, pinned: map[string]bool{}}
	defer b.close()
	if err := b.build(); err != nil {
		return err
	}
	if err := answer.Encode(Ready{Warnings: b.warnings}); err != nil {
		return fmt.Errorf("answer the shim: %w", err)
	}
	return b.become()
}

// maxSpec bounds a spec: 100,000 mask steps of 4,000-byte paths do not fit and are
// refused with a decode error, not with memory.
const maxSpec = 256 << 20

// Sandbox is what bubblewrap is asked for.
func (s Spec) Sandbox() bwrap.Spec {
	return bwrap.Spec{
		Root:          rootPath,
		DisableUserns: true,
		ShmSize:       s.ShmSize,
		Cover:         bwrap.ProcFiles(),
		StatusFD:      StatusFD,
		Argv:          append([]string{guestPath, "guest", fmt.Sprint(GuestFD)}, feature.Carry()...),
	}.Fit(s.Bwrap)
}

// become turns the process into bubblewrap. It returns only with an error.
func (b *builder) become() error {
	args, err := bwrap.Args(b.spec.Sandbox())
	if err != nil {
		return &stepError{"bwrap", err}
	}
	return &stepError{"bwrap", bwrap.Exec(b.program, args, GuestFD, StatusFD)}
}

type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }
