package unionfs

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/overlay"
)

// byHand makes the test binary serve one view until it is unmounted, for suites of
// others (pjdfstest, unionmount-testsuite) and for profiles. Its value is
// "lower[:lower…],upper,work,mountpoint"; byHandOptions adds "nopt" (no
// passthrough), "ask", "prof=FILE".
const (
	byHand        = "SBXD_UNIONFS_SERVE"
	byHandOptions = "SBXD_UNIONFS_OPTIONS"
)

func serveByHand(layers []string) error {
	if len(layers) != 4 {
		return errors.New("give lower,upper,work,mountpoint")
	}
	open := func(dir string) *os.File {
		f, err := os.Open(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return f
	}
	var spec overlay.Spec
	for l := range strings.SplitSeq(layers[0], ":") {
		spec.Lowers = append(spec.Lowers, open(l))
	}
	spec.Upper, spec.Work = open(layers[1]), open(layers[2])
	dev, err := OpenDevice()
	if err != nil {
		return err
	}
	view, err := Mount(dev, MountOptions{AllowOther: true})
	if err != nil {
		return err
	}
	opt, prof := Options{}, ""
	passthrough := os.Geteuid() == 0
	for o := range strings.SplitSeq(os.Getenv(byHandOptions), ",") {
		switch {
		case o == "nopt":
			passthrough = false
		case o == "ask":
			opt.Asker = yes{}
		case strings.HasPrefix(o, "prof="):
			prof = o[5:]
		}
	}
	if passthrough {
		opt.Backings = direct{dev}
	}
	s, err := Serve(dev, spec, opt)
	if err != nil {
		return err
	}
	Processors(1)
	at := os.Getenv("SBXD_UNIONFS_DEV") // suid and dev, as a suite of file systems wants
	if at != "" {
		if err := mnt.SetAttr(int(view.Fd()), 0, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, false); err != nil {
			return err
		}
	}
	if err := mnt.Move(int(view.Fd()), unix.AT_FDCWD, layers[3]); err != nil {
		return err
	}
	if opt.Backings == nil {
		dev.Close()
	}
	view.Close()
	if prof != "" {
		f, err := os.OpenFile(prof, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	s.Wait()
	if os.Getenv("SBXD_UNIONFS_STATS") != "" {
		fmt.Fprintf(os.Stderr, "%+v\n", s.Stats())
	}
	return nil
}
