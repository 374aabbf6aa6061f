// Package unionfs is the overlay backend of our own: a FUSE server that shows one
// writable upper over read-only lowers.
//
// The one idea: a node is an object, not a path. The kernel holds node ids; a
// node knows the names under which its object can be reached (a directory and a
// name) and in which layer it lies. Directories are reached by descriptors, one
// name at a time, so no path is ever joined, nothing is followed, and a rename of
// an ancestor changes nothing for those below. A file of a lower becomes a file of
// the upper (copy-up) without a change of node, number or open descriptor.
//
// Two processes. The holder, in the user and mount namespaces of a session, opens
// /dev/fuse and calls Mount. The shim, outside, receives that descriptor and calls
// Serve. The server works with the rights of its own uid; the kernel has checked
// those of the caller (default_permissions) before a request arrives.
//
// Two modes. Plain: the kernel caches names, attributes, listings and pages, and
// asks no OPENDIR. Ask (Options.Asker): OPEN and OPENDIR are questions, and a
// creation is MKNOD and OPEN, since a held CREATE would hold its directory.
//
// Caching. What only the upper can change is cached for an hour: every change
// comes through the mount, and the kernel knows it. What a lower can change is
// cached for an hour while its directory is watched (inotify, within a budget)
// and a second otherwise. The watcher invalidates from a goroutine of its own,
// never from a handler: the kernel takes the lock of the directory for it.
//
// Locks, in the order in which they are taken: a copy-up (fs.copies), the handles
// of one file (node.mu of a file), the entries of directories (node.mu of a
// directory, two of them by node id), the tree (fs.tree: all names, parents, tables),
// the descriptors of one directory (node.fdmu). A copy of data holds only the first.
// Nothing is held over a question or an invalidation.
//
// Mountpoints. Others mount on names of the view, and the kernel drops a mount with its
// name as soon as that is another object. There only the last lower counts, which nobody
// changes (CompileMasks).
//
// The upper has the format of the kernel's overlayfs with userxattr: character
// device 0:0 for a name that is gone, user.overlay.opaque for a directory that
// hides those below. The user of a view can make neither. Directories with a
// part in a lower are not renamed (EXDEV), as the kernel does; mv(1) copies them.
//
// The package must not know sessions, projects, policies or landings.
package unionfs

import (
	"context"
	"os"
	"time"
)

const (
	// long is how long the kernel may keep what cannot change without it, or
	// without the watcher, knowing.
	long = time.Hour
	// short is how long it may keep what a lower can change unseen.
	short = time.Second
	// maxName is the longest name in bytes, as on every file system of Linux.
	maxName = 255
	// maxWrite bounds one request for data: what kernels allow by default
	// (256 pages).
	maxWrite = 1 << 20
	// ioSize is what programs are told to read and write at once (st_blksize): each
	// write(2) is a request, and the libraries of C and Python take the 4 KiB of most
	// file systems for their buffers.
	ioSize = 128 << 10
	// copyStep is how much is copied between two looks at whether the caller
	// was killed: at 100 MB/s, under a second.
	copyStep = 64 << 20
	// copyTries is how often a copy-up begins anew because the lower was written
	// to meanwhile.
	copyTries = 4
)

// Options changes what a server does. The zero value is the plain mode without
// bounds, masks or hooks.
type Options struct {
	// MaxBytes and MaxInodes bound what the upper holds; more is ENOSPC, and
	// what was there before counts. 0: no bound of ours. With a bound no file
	// passes through.
	MaxBytes, MaxInodes int64
	// Masks hides names by pattern, nil none.
	Masks *Masks
	// Asker selects the ask mode.
	Asker Asker
	// Journal is told what was read, written and refused, nil nobody.
	Journal Journal
	// Bases keeps the lower's version of each file that is copied up, nil nobody.
	Bases Bases
	// Backings registers files of the upper so that the kernel reads and writes
	// them itself, nil none (it needs CAP_SYS_ADMIN in the initial namespace).
	Backings Backings
	// Watches bounds the inotify watches; 0 is a share of what the system
	// allows a user, negative none.
	Watches int
	// Durable writes a copy to disk before it replaces the lower's file.
	Durable bool
}

// Asker decides about one opening. It may take as long as it likes; ctx ends when
// the caller is interrupted. An error refuses: EINTR if ctx ended, else EACCES.
// Nothing is locked meanwhile.
type Asker interface {
	Ask(ctx context.Context, q Question) error
}

// Question is one opening of a file or a directory.
type Question struct {
	Path  string // in the view, "" the root
	Dir   bool
	Write bool
	Pid   uint32 // in the pid namespace of the mounter; 0 unknown
}

// Journal takes notes. It is called by many goroutines and must not block.
type Journal interface {
	Note(n Note)
}

// Note is one line of a journal.
type Note struct {
	Op   Op
	Path string // in the view
	To   string // of a rename or a link: the new path
	Pid  uint32
}

// Op is what was done.
type Op uint8

// The kinds of notes. Read and Write are openings.
const (
	Read Op = iota + 1
	Write
	Create
	Remove
	Rename
	Link
	Attributes
	CopyUp
	Refused
)

var opNames = [...]string{"", "read", "write", "create", "remove", "rename", "link", "attributes", "copy-up", "refused"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "invalid"
}

// Bases keeps what a lower had when a file was first written to. An error fails
// the write with EIO.
type Bases interface {
	Keep(path string, lower *os.File) error
}

// Backings registers a regular file of the upper with the kernel (FUSE passthrough).
type Backings interface {
	Register(fd int) (id int32, err error)
	Unregister(id int32) error
}

// Stats are counters since the start, and what is held now.
type Stats struct {
	Nodes, Handles, Dirs, Watches int   // now
	Bytes, Inodes                 int64 // in the upper, with bounds only
	CopyUps, Passthroughs         int64
	Panics, Overflows             int64
	Invalidations                 int64
}
