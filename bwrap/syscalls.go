package bwrap

import "golang.org/x/sys/unix"

// denied is a system call that no session may make, with its number on each
// architecture (-1: it has none there) and the error that it gets.
type denied struct {
	name         string
	amd64, arm64 int
	errno        unix.Errno
}

// deniedCalls is sorted by name. EPERM says "not allowed"; ENOSYS makes a C library
// take its older way (clone for clone3, whose flags a filter cannot read).
//
// Sources: flatpak-run.c and Docker's default profile (seccomp/default_linux.go), less
// what debuggers need: ptrace stays, a session has its own pid and user namespace.
var deniedCalls = []denied{
	{"acct", 163, 89, unix.EPERM},               // process accounting into a file of the host
	{"add_key", 248, 217, unix.EPERM},           // keyrings are not namespaced for a shared uid
	{"bpf", 321, 280, unix.EPERM},               // attack surface of the verifier
	{"chroot", 161, 51, unix.EPERM},             // root in a nested namespace only
	{"clone3", 435, 435, unix.ENOSYS},           // flags behind a pointer
	{"delete_module", 176, 106, unix.EPERM},     // the host's kernel
	{"finit_module", 313, 273, unix.EPERM},      // the host's kernel
	{"fsconfig", 431, 431, unix.ENOSYS},         // new mount API
	{"fsmount", 432, 432, unix.ENOSYS},          // new mount API
	{"fsopen", 430, 430, unix.ENOSYS},           // new mount API
	{"fspick", 433, 433, unix.ENOSYS},           // new mount API
	{"init_module", 175, 105, unix.EPERM},       // the host's kernel
	{"io_uring_enter", 426, 426, unix.EPERM},    // does calls that no filter sees
	{"io_uring_register", 427, 427, unix.EPERM}, // as io_uring_enter
	{"io_uring_setup", 425, 425, unix.EPERM},    // as io_uring_enter
	{"kcmp", 312, 272, unix.EPERM},              // tells kernel addresses apart
	{"kexec_file_load", 320, 294, unix.EPERM},   // the host's kernel
	{"kexec_load", 246, 104, unix.EPERM},        // the host's kernel
	{"keyctl", 250, 219, unix.EPERM},            // as add_key
	{"modify_ldt", 154, -1, unix.EPERM},         // old attack surface
	{"mount", 165, 40, unix.EPERM},              // lifts masks in a nested namespace
	{"mount_setattr", 442, 442, unix.ENOSYS},    // new mount API
	{"move_mount", 429, 429, unix.ENOSYS},       // new mount API
	{"open_by_handle_at", 304, 265, unix.EPERM}, // opens by inode, past every mask
	{"open_tree", 428, 428, unix.ENOSYS},        // new mount API
	{"open_tree_attr", 467, 467, unix.ENOSYS},   // new mount API (Linux 6.15)
	{"perf_event_open", 298, 241, unix.EPERM},   // attack surface, side channels
	{"pidfd_getfd", 438, 438, unix.EPERM},       // takes descriptors of the guest
	{"pivot_root", 155, 41, unix.EPERM},         // detaches masks in a nested namespace
	{"process_vm_writev", 311, 271, unix.EPERM}, // writes into the guest
	{"quotactl", 179, 60, unix.EPERM},           // the host's quotas
	{"quotactl_fd", 443, 443, unix.EPERM},       // the host's quotas
	{"reboot", 169, 142, unix.EPERM},            // ends the pid namespace
	{"request_key", 249, 218, unix.EPERM},       // as add_key; starts a host program
	{"setns", 308, 268, unix.EPERM},             // other namespaces
	{"swapoff", 168, 225, unix.EPERM},           // the host's memory
	{"swapon", 167, 224, unix.EPERM},            // the host's memory
	{"syslog", 103, 116, unix.EPERM},            // the host's kernel log
	{"umount2", 166, 39, unix.EPERM},            // lifts masks in a nested namespace
	{"unshare", 272, 97, unix.EPERM},            // nested namespaces
	{"uselib", 134, -1, unix.EPERM},             // old attack surface
	{"userfaultfd", 323, 282, unix.EPERM},       // makes kernel races winnable
	{"vmsplice", 278, 75, unix.EPERM},           // old attack surface of pipes
}

// Calls that are judged by an argument.
var (
	callClone      = denied{name: "clone", amd64: 56, arm64: 220, errno: unix.EPERM}
	callIoctl      = denied{name: "ioctl", amd64: 16, arm64: 29, errno: unix.EPERM}
	callSocket     = denied{name: "socket", amd64: 41, arm64: 198, errno: unix.EAFNOSUPPORT}
	callSocketpair = denied{name: "socketpair", amd64: 53, arm64: 199, errno: unix.EAFNOSUPPORT}
)

// deniedCloneFlags are the namespaces that clone(2) can make: cgroup, uts, ipc, user,
// pid, net and mount.
const deniedCloneFlags = unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS

// deniedIoctls put characters into a terminal's input, as if they had been typed:
// CVE-2017-5226 and, for virtual consoles, CVE-2023-28100.
var deniedIoctls = []uint32{unix.TIOCSTI, unix.TIOCLINUX}

// allowedFamilies are the socket families of a session. AF_VSOCK in particular is not
// namespaced: it reaches the hypervisor from any network namespace.
var allowedFamilies = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
