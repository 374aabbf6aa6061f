package unionfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/overlay"
)

// ProbeMain is the stage that Probe starts: it tries a view below the directory
// in os.Args[2], prints one JSON object, and returns.
func ProbeMain() {
	a := answer{Step: "child", Text: "no directory given"}
	if len(os.Args) == 3 {
		a = probeAll(os.Args[2])
	}
	_ = json.NewEncoder(os.Stdout).Encode(a)
}

// probes are what a session relies on, in order.
var probes = []struct {
	step string
	try  func(dir string) error
}{
	{"layers", probeLayers},
	{"mount", probeMount},
	{"copy-up", func(dir string) error {
		return os.WriteFile(dir+"/view/kept", []byte("new"), 0o600)
	}},
	{"whiteout", probeWhiteout},
	{"opaque", probeOpaque},
	{"exchange", func(dir string) error {
		return unix.Renameat2(unix.AT_FDCWD, dir+"/view/kept", unix.AT_FDCWD, dir+"/view/dir", unix.RENAME_EXCHANGE)
	}},
}

func probeAll(dir string) answer {
	defer func() { _ = mnt.Detach(dir + "/view") }()
	for _, p := range probes {
		if err := p.try(dir); err != nil {
			a := answer{Step: p.step, Text: err.Error()}
			_ = errors.As(err, &a.Errno)
			return a
		}
	}
	return answer{}
}

func probeLayers(dir string) error {
	for _, n := range []string{"lower", "lower/dir", "upper", "work", "view"} {
		if err := os.Mkdir(filepath.Join(dir, n), 0o700); err != nil {
			return err
		}
	}
	for _, n := range []string{"gone", "kept", "dir/hidden"} {
		if err := os.WriteFile(filepath.Join(dir, "lower", n), []byte(n), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func probeMount(dir string) error {
	if err := mnt.MakePrivate(); err != nil {
		return err
	}
	var layers [3]*os.File
	for i, n := range []string{"lower", "upper", "work"} {
		f, err := os.Open(filepath.Join(dir, n))
		if err != nil {
			return err
		}
		defer f.Close()
		layers[i] = f
	}
	view, err := new(Backend).Mount(overlay.Spec{Lowers: layers[:1], Upper: layers[1], Work: layers[2]})
	if err != nil {
		return err
	}
	defer view.Close()
	return mnt.Move(int(view.Fd()), unix.AT_FDCWD, dir+"/view")
}

func probeWhiteout(dir string) error {
	if err := os.Remove(dir + "/view/gone"); err != nil {
		return err
	}
	var st unix.Statx_t
	if err := statAt(unix.AT_FDCWD, dir+"/upper/gone", &st); err != nil {
		return err
	}
	if !isWhiteout(&st) {
		return fmt.Errorf("a deleted file is kept as mode %o", st.Mode)
	}
	return nil
}

func probeOpaque(dir string) error {
	if err := os.RemoveAll(dir + "/view/dir"); err != nil {
		return err
	}
	if err := os.Mkdir(dir+"/view/dir", 0o700); err != nil {
		return err
	}
	var v [8]byte
	n, err := unix.Lgetxattr(dir+"/upper/dir", markOpaque, v[:])
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("read the mark of a directory made anew: %w", errno)
	}
	if string(v[:n]) != "y" {
		return fmt.Errorf("a directory made anew is marked %q", v[:n])
	}
	return nil
}
