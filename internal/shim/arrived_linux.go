package shim

import (
	"bytes"
	"fmt"
	"os"
)

// The mounter's mounts come into the sandbox by propagation, which is the kernel's and
// bubblewrap's doing. A mask that did not come would show what it hides; so they are
// counted, and a start with one too few fails.

// mountCount counts the mounts that a process sees.
func mountCount(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	return bytes.Count(b, []byte{'\n'}), err
}

// arrived checks that the sandbox has all that the mounter has attached.
func (s *shim) arrived(attached int) error {
	now, err := mountCount(s.running.Guest.Pid)
	if err == nil && now < s.mounts+attached {
		err = fmt.Errorf("%d mounts were made for the session and %d came into its sandbox: this bubblewrap does not take mounts from outside",
			attached, max(0, now-s.mounts))
	}
	return err
}
