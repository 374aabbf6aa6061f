package shim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/backing"
	"github.com/sbxd/sbxd/internal/glob"
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/unionfs"
)

// served reports whether a view of spec has to be served.
func served(spec holder.Spec) bool {
	return slices.ContainsFunc(spec.Views, func(v holder.View) bool { return v.FUSE })
}

// serving is what views are served with.
type serving struct {
	bounds  unionfs.Options
	backing *backing.Client // nil: no file passes through the kernel
}

// options are those of one view.
func (how serving) options(dev *os.File, patterns []glob.Pattern, mountpoints [][]string) (opt unionfs.Options, err error) {
	opt = how.bounds
	if how.backing != nil {
		if opt.Backings, err = how.backing.For(dev); err != nil {
			return opt, err
		}
	}
	opt.Masks, err = unionfs.CompileMasks(patterns, mountpoints)
	return opt, err
}

// serving is how views are served: the bounds of what the session changes, and who
// registers backing files, if files has his socket.
func (s *shim) serving(files []*os.File) serving {
	out := serving{bounds: unionfs.Options{MaxBytes: s.launch.Policy.ChangesSize, MaxInodes: s.launch.Policy.ChangedFiles}}
	for _, f := range files {
		out.backing, _ = backing.NewClient(f) // without one all goes through the server
	}
	return out
}

// serveViews takes the devices of the views that are FUSE from the mounter and serves
// them, until the last process that has the mount ends. The mounter goes on meanwhile; a
// server that cannot be ends the sandbox, and tells why on failed.
func (in *inner) serveViews(spec holder.Spec, layers []*os.File, how serving) (failed <-chan error, err error) {
	a, devices, err := in.mounter.ReceiveFiles()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the mounter gave no devices: %w", errDied, err)
	case a.Failure != nil:
		return nil, a.Failure
	}
	errs := make(chan error, len(spec.Views))
	var starts sync.WaitGroup
	defer func() {
		go func() {
			starts.Wait()
			unionfs.Processors(len(spec.Views))
		}()
	}()
	for _, v := range spec.Views {
		if !v.FUSE {
			continue
		}
		if len(devices) == 0 {
			return nil, errors.New("the mounter gave fewer devices than there are views")
		}
		dev := devices[0]
		devices = devices[1:]
		layers, err := openLayers(v, layers)
		if err != nil {
			return nil, err
		}
		starts.Go(func() {
			if err := serveView(v, dev, layers, spec, how); err != nil {
				errs <- fmt.Errorf("serve the view of %s: %w", v.Path, err)
				_ = in.process.Kill()
			}
		})
	}
	return errs, nil
}

func serveView(v holder.View, dev *os.File, layers overlay.Spec, spec holder.Spec, how serving) error {
	defer dev.Close()
	defer closeSpec(layers)
	var patterns []glob.Pattern
	for _, p := range spec.Patterns {
		if p.View == v.Path {
			patterns = append(patterns, p.Pattern)
		}
	}
	var mountpoints [][]string
	for _, p := range spec.Placeholders {
		if p.View == v.Path {
			mountpoints = append(mountpoints, strings.Split(p.Path, "/"))
		}
	}
	opt, err := how.options(dev, patterns, mountpoints)
	if err != nil {
		return err
	}
	_, err = unionfs.Serve(dev, layers, opt)
	return err
}

// openLayers opens the directories of a view, the real one by the identity that the
// session was made for.
func openLayers(v holder.View, layers []*os.File) (spec overlay.Spec, err error) {
	defer func() {
		if err != nil {
			closeSpec(spec)
		}
	}()
	lower, err := openLayer(v.Path)
	if v.Layer > 0 && err == nil {
		_ = lower.Close()
		lower, err = duplicate(layers[v.Layer-1])
	}
	if err != nil {
		return spec, err
	}
	spec.Lowers = append(spec.Lowers, lower)
	var st unix.Stat_t
	if err := unix.Fstat(int(spec.Lowers[0].Fd()), &st); err != nil {
		return spec, err
	}
	if v.Ino != 0 && (st.Ino != v.Ino || st.Dev != v.Dev) {
		return spec, fmt.Errorf("%s is another directory than the session was made for", v.Path)
	}
	if v.Pins != "" {
		pins, err := openLayer(v.Pins)
		if err != nil {
			return spec, err
		}
		spec.Lowers = append(spec.Lowers, pins)
	}
	if spec.Upper, err = openLayer(v.Dir + "/upper"); err != nil {
		return spec, err
	}
	spec.Work, err = openLayer(v.Dir + "/work")
	return spec, err
}

func openLayer(path string) (*os.File, error) {
	dir, err := safefs.OpenReal(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Open(".", unix.O_PATH|unix.O_DIRECTORY, 0)
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func closeSpec(s overlay.Spec) {
	closeAll(s.Lowers)
	for _, f := range []*os.File{s.Upper, s.Work} {
		if f != nil {
			_ = f.Close()
		}
	}
}
