// Package landlock is the second belt against mounts: a process under any ruleset
// that handles a file right can no longer mount, unmount, move or pivot (the kernel
// refuses with EPERM, see landlock(7), "File system topology cannot be modified").
//
// So the ruleset here handles every file right that the kernel knows and allows all
// of them beneath one directory: nothing else changes for the process. Where the
// kernel can, it also cuts off abstract unix sockets and signals of the outside.
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

// Options says what a restriction must contain. The zero value allows all files
// beneath "/" and scopes what the kernel can scope.
type Options struct {
	// Beneath is the directory below which every file right stays; "" means "/". A file
	// that is reached by another way than through this directory (a descriptor into
	// another mount namespace, say) can no longer be opened; pipes, sockets and memory
	// files can.
	Beneath string
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

// rights lists the file rights in the order in which the kernel got them.
var rights = []struct {
	abi int
	fs  uint64
}{
	{1, unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM},
	{2, unix.LANDLOCK_ACCESS_FS_REFER},
	{3, unix.LANDLOCK_ACCESS_FS_TRUNCATE},
	{5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
}

// rulesFor returns the ruleset of a kernel of version abi, or an error that names what
// is missing. Rights that came after the list above stay unhandled, that is allowed.
func rulesFor(abi int, opt Options) (ruleset, error) {
	switch {
	case abi < MinABI:
		return ruleset{}, fmt.Errorf("%w: it offers version %d, needed is %d (Linux 5.19)", ErrUnsupported, abi, MinABI)
	case abi < ScopeABI && opt.NeedScopes:
		return ruleset{}, fmt.Errorf("%w: abstract sockets cannot be scoped with version %d, needed is %d (Linux 6.12)",
			ErrUnsupported, abi, ScopeABI)
	}
	r := ruleset{size: sizeFS}
	for _, step := range rights {
		if step.abi <= abi {
			r.fs |= step.fs
		}
	}
	if abi >= ScopeABI {
		r.size = sizeScope
		r.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return r, nil
}
