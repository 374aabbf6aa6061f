package bwrap

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// procFiles name keys of the session's uid, also those of the host, by any name that
// their owner chose; the keys themselves are out of reach.
var procFiles = []string{"/proc/keys", "/proc/key-users"}

// ProcFiles returns the files of /proc that a session should not read and that this
// kernel has: bubblewrap fails on one that is missing. They are for Spec.Cover.
func ProcFiles() []string {
	return slices.DeleteFunc(slices.Clone(procFiles), func(name string) bool {
		_, err := os.Lstat(name)
		return err != nil
	})
}

// Exec hardens the calling process and turns it into the bubblewrap at program, an
// absolute path or /proc/self/fd/N. It returns only with an error.
//
// The sandbox inherits descriptors 0, 1 and 2 and those of keep (with Spec.StatusFD
// among them), nothing else, and PATH as the whole environment. The goroutine must be
// locked to its thread.
func Exec(program string, a Arguments, keep ...int) error {
	if err := checkKeep(keep); err != nil {
		return err
	}
	if err := Harden(); err != nil {
		return err
	}
	if err := place("bwrap-args", a.file(), ArgsFD); err != nil {
		return fmt.Errorf("write bubblewrap's arguments: %w", err)
	}
	keep = append(slices.Clone(keep), ArgsFD)
	if a.seccomp {
		raw, err := Seccomp(runtime.GOARCH)
		if err != nil {
			return err
		}
		if err := place("bwrap-seccomp", encode(raw), SeccompFD); err != nil {
			return fmt.Errorf("write the seccomp program: %w", err)
		}
		keep = append(keep, SeccompFD)
	}
	if err := keepOnly(keep); err != nil {
		return err
	}
	if err := syscall.Exec(program, a.line(), []string{"PATH=/usr/bin:/bin"}); err != nil {
		return fmt.Errorf("run bubblewrap at %q: %w", program, err)
	}
	return nil
}

func checkKeep(keep []int) error {
	for _, fd := range keep {
		if fd < 3 || fd == ArgsFD || fd == SeccompFD {
			return fmt.Errorf("pass on descriptor %d: it is standard, or used by bubblewrap's arguments", fd)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return fmt.Errorf("pass on descriptor %d: %w", fd, err)
		}
	}
	return nil
}

// keepOnly marks every descriptor from 3 on as closed by execve, save those of keep.
func keepOnly(keep []int) error {
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("mark descriptors to be closed: %w", err)
	}
	for _, fd := range keep {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("pass on descriptor %d: %w", fd, err)
		}
	}
	return nil
}

// place makes an anonymous file with content and puts it at descriptor fd.
func place(name string, content []byte, fd int) error {
	tmp, err := memfd(name, content)
	if err != nil {
		return err
	}
	return unix.Dup3(tmp, fd, unix.O_CLOEXEC)
}

// memfd makes an anonymous file with content, to be read from its start.
func memfd(name string, content []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	for done := 0; done < len(content); {
		n, err := unix.Pwrite(fd, content[done:], int64(done))
		if err != nil && !errors.Is(err, unix.EINTR) {
			unix.Close(fd)
			return -1, err
		}
		done += max(n, 0)
	}
	return fd, nil
}
