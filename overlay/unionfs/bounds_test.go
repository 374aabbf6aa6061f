package unionfs

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Everything that takes room is refused at the bound, whole, and room that is given
// back can be used again.
func TestBoundOnBytes(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	const most = 1 << 20
	v := newView(t, stage{MaxBytes: most}, `head -c 3000000 /dev/zero | tr '\0' x >big; echo small >small`)
	for range 2 {
		err := os.WriteFile(v.P+"/f", make([]byte, 2*most), 0o600)
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("write beyond the bound: %v, want ENOSPC", err)
		}
		if err := os.Chmod(v.P+"/big", 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("copy up a file that does not fit: %v, want ENOSPC", err)
		}
		v.sh(`test "$(stat -c %s big)" = 3000000; test "$(head -c1 big)" = x`)
		if _, err := os.Lstat(v.upper + "/big"); err == nil {
			t.Error("half a copy is in the upper")
		}
		v.check(os.Remove(v.P + "/f"))
		v.eventually("room again", func() bool {
			return os.WriteFile(v.P+"/g", make([]byte, most/2), 0o600) == nil && os.Remove(v.P+"/g") == nil
		})
	}
	f, err := os.OpenFile(v.P+"/h", os.O_RDWR|os.O_CREATE, 0o600)
	v.check(err)
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 2*most); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("fallocate beyond the bound: %v, want ENOSPC", err)
	}
	if _, err := f.Write(make([]byte, most/2)); err != nil {
		t.Errorf("half of the room: %v", err)
	}
	var st unix.Statfs_t
	v.check(unix.Statfs(v.P, &st))
	if total := int64(st.Blocks) * st.Frsize; total > most {
		t.Errorf("statfs shows %d bytes, want at most %d", total, most)
	}
	v.sh(`echo more >>small; rm small big`)
}

func TestBoundOnInodes(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{MaxInodes: 10}, `for i in 1 2 3 4 5 6 7 8 9 a b c d; do echo $i >l$i; done`)
	n := 0
	for ; n < 20; n++ {
		if err := os.WriteFile(v.P+"/n"+strings.Repeat("x", n), nil, 0o600); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Errorf("create beyond the bound: %v, want ENOSPC", err)
			}
			break
		}
	}
	if n != 10 {
		t.Errorf("%d files were made, want 10", n)
	}
	for _, err := range []error{os.Mkdir(v.P+"/d", 0o700), os.Symlink("x", v.P+"/s"), unix.Mkfifo(v.P+"/p", 0o600), os.Chmod(v.P+"/l1", 0o600)} {
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("beyond the bound: %v, want ENOSPC", err)
		}
	}
	v.sh(`rm l1 l2 l3`) // whiteouts are no files of the session
	v.remount()
	if err := os.WriteFile(v.P+"/again", nil, 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("after a remount: %v, want ENOSPC", err)
	}
	v.check(os.Remove(v.P + "/n"))
	v.eventually("room again", func() bool { return os.WriteFile(v.P+"/again", nil, 0o600) == nil })
}
