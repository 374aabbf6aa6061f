package unionfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
)

// probeFD is the socket between the two stages.
const probeFD = 3

// ProbeMain is the stage that uses the view: it mounts one below the directory in
// os.Args[2], hands its device to the stage that serves it, prints one JSON object, and
// returns.
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
			return answerOf(p.step, err)
		}
	}
	return answer{}
}

func probeMount(dir string) error {
	if err := mnt.MakePrivate(); err != nil {
		return err
	}
	dev, err := OpenDevice()
	if err != nil {
		return err
	}
	defer dev.Close()
	view, err := Mount(dev, MountOptions{})
	if err != nil {
		return err
	}
	defer view.Close()
	if err := unix.Sendmsg(probeFD, []byte{0}, unix.UnixRights(int(dev.Fd())), nil, 0); err != nil {
		return fmt.Errorf("hand the device over: %w", err)
	}
	if err := Settle(view); err != nil {
		return err
	}
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
