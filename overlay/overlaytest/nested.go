package overlaytest

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/overlay"
)

// nested tests B006: another file system is mounted in the lower. A view never
// leads into it, and everything beside it works.
func (s *suite) nested(t *testing.T) {
	v := s.newView(t, func(lower string) error { return script(lower, `mkdir mnt beside; echo x >beside/f`) })
	v.unmount()
	v.frozen = false
	fs, err := mnt.Tmpfs(1<<20, 64, 0o700)
	v.check(err)
	v.check(mnt.Move(fs, unix.AT_FDCWD, v.lower+"/mnt"))
	v.check(unix.Close(fs))
	v.check(os.WriteFile(v.lower+"/mnt/inner", []byte("inner"), 0o600))
	t.Cleanup(func() { _ = mnt.Detach(v.lower + "/mnt") })
	v.mount()
	v.agent(func() error {
		left, err := os.ReadDir(v.P + "/mnt")
		return errors.Join(err, want("entries of the mountpoint", len(left), 0), script(v.P, `touch new beside/g; echo w >mnt/b; rm beside/f`))
	})
	if left, err := os.ReadDir(v.lower + "/mnt"); err != nil || len(left) != 1 {
		t.Errorf("the nested mount now holds %v, %v", left, err)
	}
	got := list(v.changes(overlay.Options{}))
	if got != "delete beside/f file (was file) 644\nadd beside/g file (was none) 644\nadd mnt/b file (was none) 644\nadd new file (was none) 644\n" {
		t.Errorf("changes:\n%s", got)
	}
}
