// Package feature answers one question: should this probed feature be treated
// as missing?
//
// In a release build the answer is always no and costs nothing. In a binary
// built with the tag sbxdtest, SBXD_TEST_WITHOUT=landlock,pidfd switches the
// named features off, so that every fallback can be tested on a kernel that has
// them all. The package knows names only; it probes nothing.
package feature

// The features that a test build can switch off.
const (
	FDLowerdir      = "fd-lowerdir"      // overlayfs layers given as descriptors (Linux 6.13), else /proc/self/fd paths
	Landlock        = "landlock"         // Landlock in the guest
	PeerPidfd       = "peer-pidfd"       // SO_PEERPIDFD (Linux 6.5)
	Pidfd           = "pidfd"            // pidfd_open, pidfd_send_signal (Linux 5.3)
	RenameExchange  = "openat2-exchange" // renameat2(RENAME_EXCHANGE) on the project's file system
	Seccomp         = "seccomp"          // the seccomp program of bwrap
	SpareShim       = "spare"            // a shim kept ready by the daemon
	UserNamespaces  = "userns"           // user namespaces at all
	UserNSLimit     = "userns-limit"     // --disable-userns
	OverlayInUserNS = "overlay-userns"   // overlayfs mounted in a user namespace (Linux 5.11)
)

// Off reports whether name is to be treated as missing. It is false in every
// binary built without the tag sbxdtest, whatever the environment says.
func Off(name string) bool { return off(name) }

// Carry returns the arguments that hand the switches on to a process without an
// environment, and Accept takes them there. In a release build there are none.
func Carry() []string { return carry() }

// Accept is the other half of Carry.
func Accept(args []string) { accept(args) }
