// Package landlock is the second belt against mounts: a process under any ruleset
// that handles a file right can no longer mount, unmount, move or pivot (the kernel
// refuses with EPERM, see landlock(7), "File system topology cannot be modified").
//
// So the ruleset here handles one file right and allows it everywhere: nothing else changes
// for the process. Where the kernel can, it also cuts off abstract unix sockets and signals
// of the outside.
//
// The right is REFER, to move and link files between directories, which the kernel takes
// from whoever handles rights and not this one. Of a right that is handled it checks each
// use, from the file up to the root: with those to open, make and remove files among them
// an archive was unpacked in 1.14 of the time, instead of 1.01.
//
// It knows the three system calls and their versions. It must not know what a
// session is, nor whether a missing layer is acceptable: the caller decides that.
package landlock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrUnsupported is returned when the kernel has no Landlock, has it switched off, or
// has too old a version for what was asked.
var ErrUnsupported = errors.New("landlock is not available in this kernel")

const (
	// MinABI is the oldest version that Restrict accepts (Linux 5.19). Version 1 refuses
	// every rename across directories, which no compiler and no git survives.
	MinABI = 2
	// ScopeABI is the first version that can scope abstract sockets and signals
	// (Linux 6.12).
	ScopeABI = 6
)

// Options says what a restriction must contain. The zero value scopes what the kernel can
// scope.
type Options struct {
	// NeedScopes makes a kernel without scopes an error instead of leaving them out.
	// A session that shares a network namespace needs it: abstract sockets of the host
	// are reachable there.
	NeedScopes bool
}

// ruleset is what goes to the kernel: the rights of one version.
type ruleset struct {
	fs, scoped uint64
	size       uintptr // of landlock_ruleset_attr in that version, bytes
}

// Size of struct landlock_ruleset_attr: the file rights alone, with the network rights
// of version 4, with the scopes of version 6.
const (
	sizeFS    = 8
	sizeScope = 24
)

// rulesFor returns the ruleset of a kernel of version abi, or an error that names what
// is missing.
func rulesFor(abi int, opt Options) (ruleset, error) {
	switch {
	case abi < MinABI:
		return ruleset{}, fmt.Errorf("%w: it offers version %d, needed is %d (Linux 5.19)", ErrUnsupported, abi, MinABI)
	case abi < ScopeABI && opt.NeedScopes:
		return ruleset{}, fmt.Errorf("%w: abstract sockets cannot be scoped with version %d, needed is %d (Linux 6.12)",
			ErrUnsupported, abi, ScopeABI)
	}
	r := ruleset{fs: unix.LANDLOCK_ACCESS_FS_REFER, size: sizeFS}
	if abi >= ScopeABI {
		r.size = sizeScope
		r.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return r, nil
}
