package holder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// finish lays what no rule may cover: the resolver's file and the guest; then /run is
// closed, so that nothing can be put in the guest's place.
func (b *builder) finish() error {
	if err := b.resolver(); err != nil {
		return fmt.Errorf("write the resolver's file: %w", err)
	}
	if err := b.makeFile(guestPath); err != nil {
		return err
	}
	if err := b.putGuest(); err != nil {
		return fmt.Errorf("put the guest's program: %w", err)
	}
	run, err := b.at("/run")
	if err != nil {
		return err
	}
	defer run.Close()
	return setAttr(run, unix.MOUNT_ATTR_RDONLY, false)
}

// resolver covers /etc/resolv.conf, which is a link on many hosts, into a /run that the
// session does not have, by a file of our own.
func (b *builder) resolver() error {
	const name = "/etc/resolv.conf"
	at, err := b.at(name)
	if err != nil {
		return nil // a host without the file: its programs do without
	}
	defer at.Close()
	tree, err := staged(path.Base(name), 0o444, strings.NewReader(b.spec.Resolv))
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := setAttr(tree, roFlags, false); err != nil {
		return err
	}
	return move(tree, at)
}

func (b *builder) putGuest() error {
	tree := b.selfTree
	if tree == nil {
		var err error
		if tree, err = b.keep(staged("guest", 0o555, b.self)); err != nil {
			return err
		}
	}
	if err := setAttr(tree, roFlags, false); err != nil {
		return err
	}
	return b.put(tree, guestPath)
}

// staged writes a file beside the tree and returns a detached clone of it.
func staged(name string, mode os.FileMode, content io.Reader) (*os.File, error) {
	path := stagePath + "/" + name
	w, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(w, content)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	f, err := openPath(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return clone(f, false)
}
