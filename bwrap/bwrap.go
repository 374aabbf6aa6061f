// Package bwrap knows bubblewrap: its arguments, its seccomp program, what it needs
// from the process that becomes it, and how to find out whether the one on this
// machine can be trusted with that.
//
// The one idea: bubblewrap binds one tree and nothing else. The tree is built by
// descriptor, in a private mount namespace, and what comes into it later reaches the
// sandbox by propagation; so no path of a user or of an agent is ever in the argument
// list, and neither the faults of older versions with links below a destination nor
// their slow binds matter.
//
// Args and the seccomp assembler are pure. Harden and Exec act on the calling process.
// The package must not know what a session shows or hides (package masks), nor build
// mounts (internal/holder).
//
// What bubblewrap 0.8 needs from a holder, that is from a process in its own user,
// mount and network namespaces, as the live tests here show:
//
//   - no capability left in the permitted set, else it says "Unexpected capabilities
//     but not setuid" and ends: the ambient set must be empty before execve. It makes
//     another user namespace below the holder's and has its capabilities there;
//   - a /proc of its own pid namespace that is not covered anywhere in the mount
//     namespace, else --proc is refused with EPERM: the holder leaves the host's mounts
//     in place and bubblewrap drops them with its pivot_root;
//   - /tmp as a directory, on which it lays its own tmpfs. A tree at /tmp/root is found
//     all the same: sources are resolved before, and below the old root after;
//   - /dev/{null,zero,full,random,urandom,tty} of the host, for --dev. Its devpts needs
//     uid 0 in a user namespace, which only bubblewrap has: a holder with one mapped
//     uid cannot make /dev itself;
//   - nothing from its environment: PATH is enough, and --clearenv removes that;
//   - SIGCHLD neither ignored nor blocked (versions before 0.11.1 do not reset it).
//
// It passes every inherited descriptor on. Its payload gets a parent-death signal only
// at the end of the set-up: when the process that bubblewrap is (the monitor) is killed
// before, the payload waits for it for ever, or starts all the same and has no parent. So
// the holder is the first process of a pid namespace of its own, which ends with it.
package bwrap

// Numbers of the descriptors that Exec makes. They are far above those that a holder
// passes on, and bubblewrap closes both before it starts the payload.
const (
	ArgsFD    = 198
	SeccompFD = 199
)

// MaxWords is bubblewrap's own limit over the command line and the --args file.
const MaxWords = 9000

// DefaultShmSize is the size of /dev/shm when Spec does not say: what Docker gives.
const DefaultShmSize = 64 << 20

// DefaultHostname is the host name inside when Spec does not say.
const DefaultHostname = "sbx"

// Spec is a sandbox as bubblewrap is asked for it. Paths are constants of the holder,
// never a user's.
type Spec struct {
	// Root is the finished tree, as the holder sees it: absolute and clean, not "/".
	// Mounts below it come along with their flags.
	Root string
	// Argv is the payload, process 1 inside. Its first word is an absolute path inside.
	Argv []string
	// Chdir is the payload's directory inside; "" means "/".
	Chdir string
	// Hostname is made of letters, digits and inner dashes; "" means DefaultHostname.
	Hostname string
	// ShmSize bounds /dev/shm, in bytes; 0 means DefaultShmSize.
	ShmSize int64
	// Cover lists files directly below /proc that are made unreadable; see ProcFiles.
	Cover []string
	// StatusFD gets bubblewrap's JSON status lines; 0 means none. A status without an
	// exit code says that the payload never ran.
	StatusFD int

	// UnshareNet asks for an empty network namespace. A holder that has its own leaves
	// it off; it must be on when bubblewrap starts in the host's.
	UnshareNet bool
	// DisableUserns forbids user namespaces inside. Off only for a bubblewrap that does
	// not know the option (before 0.8): then seccomp and Landlock alone forbid them.
	DisableUserns bool
	// NoSize leaves /dev/shm to the kernel's bound, half of the memory, for a bubblewrap
	// that knows no sizes (before 0.7).
	NoSize bool
	// NoSeccomp leaves the filter out, so that a test can show what the other layers
	// hold alone.
	NoSeccomp bool
}

// Arguments is a checked command line: what only Exec needs to know how to pass.
type Arguments struct {
	// Options go into the --args file, so that no process list shows them.
	Options []string
	// Argv is the payload.
	Argv []string

	seccomp bool // Exec adds the filter
}
