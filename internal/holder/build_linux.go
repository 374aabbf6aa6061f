package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
)

// The two empty objects that every mask shows.
const (
	coverFile = stagePath + "/empty-file"
	coverDir  = stagePath + "/empty-directory"
)

const runPath = "/run"

// builder lays what is the session's own into the frame.
type builder struct {
	tree
	spec       Spec
	layerFiles []*os.File
	hostRoot   *os.File               // the host, without its /tmp
	hostTmp    *os.File               // the host's /tmp
	views      []layers               // as spec.Views
	offer      func([]*os.File) error // gives devices to whoever serves them
	served     map[int]*os.File       // the views that are FUSE, detached
	sources    map[int]*os.File
	nested     []*os.File // as spec.Nested; nil where hidden
	coverF     *os.File   // attached prototypes of the two covers, read-only
	coverD     *os.File
	pinned     map[string]bool // by pinMovable
	keeper     keeper
	warnings   []string
}

// layers are the open directories of a view.
type layers struct{ lower, pins, upper, work *os.File }

func (b *builder) build() error {
	defer b.close()
	return doSteps("mounter.", []step{
		{"frame", b.openFrame},
		{"open", b.openSources},
		{"hide", b.hideOwn},
		{"links", b.links},
		{"served", b.mountServed},
		{"views", b.mountViews},
		{"nested", b.mountNested},
		{"masks", b.applySteps},
		{"finish", b.finish},
		{"seal", b.seal},
	})
}

func (b *builder) warn(format string, a ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, a...))
}

// openFrame opens what the holder has made. /run is closed in the sandbox, and stays
// so; here mount points may have to be made in it.
func (b *builder) openFrame() (err error) {
	b.hostTmp, _ = b.keep(os.NewFile(tmpFD, stagePath), nil)
	for _, o := range []struct {
		to   **os.File
		path string
	}{{&b.root, rootPath}, {&b.coverF, coverFile}, {&b.coverD, coverDir}, {&b.hostRoot, "/"}} {
		if *o.to, err = b.keep(openPath(o.path)); err != nil {
			return err
		}
	}
	return b.attr(runPath, 0, unix.MOUNT_ATTR_RDONLY)
}

// host opens an absolute path of the host, of any length, for reference only.
func (b *builder) host(path string) (*os.File, error) {
	if rest, ok := strings.CutPrefix(path, stagePath); ok && (rest == "" || rest[0] == '/') {
		return walk(b.hostTmp, rest)
	}
	return walk(b.hostRoot, path)
}

// hidden are parts of the base that concern the host only: our own configuration, and
// the socket of a daemon that downloads and builds, outside of any session, for whoever
// asks.
var hidden = []string{"/etc/sbxd", "/nix/var/nix/daemon-socket"}

// hideOwn covers them, wherever links of the host lead to them.
func (b *builder) hideOwn() error {
	for _, path := range hidden {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // it is not there, or nobody of this uid gets to it
		}
		if err := b.cover(real); err != nil && !errors.Is(err, fs.ErrNotExist) { // else outside of the base
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

// links makes the links anew by which the user reaches HOME, the project or a program
// directory, so that the user's spelling works inside.
func (b *builder) links() error {
	for _, l := range b.spec.Links {
		if err := b.makeLink(l.Path, l.Target); err != nil {
			return err
		}
	}
	return nil
}

// finish lays what no rule may cover: the resolver's file. It stands for
// /etc/resolv.conf, which is a link on many hosts, into a /run that the session does
// not have.
func (b *builder) finish() error {
	const name = "/etc/resolv.conf"
	at, err := b.at(name)
	if err != nil {
		return nil // a host without the file: its programs do without
	}
	defer at.Close()
	file, err := staged(path.Base(name), 0o444, strings.NewReader(b.spec.Resolv))
	if err != nil {
		return fmt.Errorf("write the resolver's file: %w", err)
	}
	defer file.Close()
	if err := setAttr(file, roFlags, false); err != nil {
		return err
	}
	return b.attach(file, at)
}

// seal ends the propagation: nothing reaches the sandbox any more.
func (b *builder) seal() error {
	return mnt.SetPropagation(int(b.root.Fd()), unix.MS_PRIVATE, true)
}
