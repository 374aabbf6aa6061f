package landlock

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ABI returns the kernel's Landlock version, 0 when there is none or it is switched
// off at boot.
func ABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// Restrict puts the calling OS thread, and all that it starts from now on, under
// Landlock; there is no way back. The caller has locked the goroutine to its thread.
// Other threads of the process stay as they are: a process that wants to be restricted
// as a whole restricts one thread and calls execve(2) on it.
//
// It sets no_new_privs on the thread, which the kernel asks for. The error wraps
// ErrUnsupported when the kernel is too old; then nothing was changed.
func Restrict(opt Options) error {
	rules, err := rulesFor(ABI(), opt)
	if err != nil {
		return err
	}
	return apply(rules, "/")
}

// apply lays rules on the thread, with all their rights allowed beneath a directory.
func apply(rules ruleset, beneath string) error {
	set, err := create(rules)
	if err != nil {
		return err
	}
	defer unix.Close(set)
	if err := allowBeneath(set, beneath, rules.fs); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0, 0); errno != 0 {
		return fmt.Errorf("restrict the thread with landlock: %w", errno)
	}
	return nil
}

func create(rules ruleset) (int, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rules.fs, Scoped: rules.scoped}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), rules.size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("create a landlock ruleset: %w", errno)
	}
	return int(fd), nil
}

// allowBeneath grants every handled right below dir.
func allowBeneath(set int, dir string, fs uint64) error {
	parent, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %q for landlock: %w", dir, err)
	}
	defer unix.Close(parent)
	attr := unix.LandlockPathBeneathAttr{Allowed_access: fs, Parent_fd: int32(parent)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allow files beneath %q in landlock: %w", dir, errno)
	}
	return nil
}
