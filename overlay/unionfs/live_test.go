package unionfs

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The owner of the real tree edits it in every way while the view has it cached.
func TestHostEditsAreSeenAtOnce(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	for name, st := range map[string]stage{"watched": {}, "beyond the budget": {Watches: -1}} {
		t.Run(name, func(t *testing.T) {
			v := newView(t, st, `mkdir -p d/e; for i in 1 2 3 4 5; do echo base$i >d/f$i; done; echo x >d/e/x; ln d/f5 d/f6`)
			v.live = true
			look := `cat d/f* >/dev/null; ls -lR . >/dev/null; ! test -e d/new; ! test -e d/e/new`
			v.sh(look)
			v.sh(look)
			v.check(sh(v.lower, `echo longer than it was >d/f1; echo replaced >t; mv t d/f2; rm d/f3; echo n >d/new; mv d/e d/g; chmod 600 d/f4; echo linked >>d/f6`))
			v.eventually("an edit in place", reads(v.P+"/d/f1", "longer than it was\n"))
			v.eventually("a file replaced", reads(v.P+"/d/f2", "replaced\n"))
			v.eventually("a file removed", absent(v.P+"/d/f3"))
			v.eventually("a file added", reads(v.P+"/d/new", "n\n"))
			v.eventually("a directory moved", reads(v.P+"/d/g/x", "x\n"))
			v.eventually("a directory gone", absent(v.P+"/d/e"))
			v.eventually("an edit by another name", reads(v.P+"/d/f5", "base5\nlinked\n"))
			v.eventually("a mode", func() bool {
				fi, err := os.Lstat(v.P + "/d/f4")
				return err == nil && fi.Mode().Perm() == 0o600
			})
			v.eventually("the list", func() bool {
				return len(v.names(v.P+"/d")) == 7
			})
		})
	}
}

// What the session has written is the session's, whatever the host does.
func TestHostEditsDoNotReachCopies(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `mkdir d; echo base >d/f; echo base >d/g; echo base >h`)
	v.live = true
	v.sh(`echo mine >d/f; rm d/g; mv h i`)
	v.check(sh(v.lower, `echo host >>d/f; echo host >d/g; rm h; echo host >h`))
	for range 50 {
		v.sh(`test "$(cat d/f)" = mine; ! test -e d/g; ! test -e h; test "$(cat i)" = base`)
	}
}

// A directory of the lower is replaced, removed and made again under the view.
func TestLowerDirectoryIsReplaced(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `mkdir -p d/s; echo 1 >d/s/one`)
	v.live = true
	v.sh(`echo mine >d/s/mine; cat d/s/one >/dev/null`)
	v.check(sh(v.lower, `rm -r d; mkdir -p d/s; echo 2 >d/s/two`))
	v.eventually("the new one", reads(v.P+"/d/s/two", "2\n"))
	v.eventually("not the old one", absent(v.P+"/d/s/one"))
	v.sh(`test "$(cat d/s/mine)" = mine; test "$(ls d/s | tr '\n' ' ')" = "mine two "`)
	v.check(sh(v.lower, `rm -r d`))
	v.eventually("nothing below", absent(v.P+"/d/s/two"))
	v.sh(`test "$(cat d/s/mine)" = mine; echo more >d/s/more`)
}

// More changes than the queue of events takes.
func TestEventsAreLost(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `mkdir d; echo old >d/f; echo x >z`)
	v.live = true
	v.sh(`cat d/f z; ls d`)
	v.check(v.server().Process.Signal(unix.SIGSTOP))
	for range 9000 { // fs.inotify.max_queued_events is 16,384
		v.check(os.WriteFile(v.lower+"/d/a", nil, 0o600))
		v.check(os.Remove(v.lower + "/d/a"))
	}
	err := sh(v.lower, `echo new >d/f.new; mv d/f.new d/f`)
	v.check(v.server().Process.Signal(unix.SIGCONT))
	v.check(err)
	v.eventually("the last change", reads(v.P+"/d/f", "new\n"))
}

// A reader keeps a file open while the session writes to it and the host replaces it.
func TestOpenFilesStayCoherent(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	for name, st := range map[string]stage{"cached": {}, "passthrough": {Passthrough: true}} {
		t.Run(name, func(t *testing.T) {
			v := newView(t, st, `echo 0123456789 >f`)
			old, err := os.Open(v.P + "/f")
			v.check(err)
			defer old.Close()
			m, err := unix.Mmap(int(old.Fd()), 0, 4, unix.PROT_READ, unix.MAP_SHARED)
			v.check(err)
			defer unix.Munmap(m)
			if string(m) != "0123" {
				t.Errorf("mapped: %q", m)
			}
			w, err := os.OpenFile(v.P+"/f", os.O_RDWR, 0)
			v.check(err)
			defer w.Close()
			wm, err := unix.Mmap(int(w.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			v.check(err)
			defer unix.Munmap(wm)
			copy(wm, "AB")
			if _, err := w.WriteAt([]byte("C"), 2); err != nil {
				t.Fatal(err)
			}
			if string(m) != "ABC3" {
				t.Errorf("an old mapping shows %q, want ABC3", m)
			}
			b := make([]byte, 4)
			if _, err := old.ReadAt(b, 0); err != nil || string(b) != "ABC3" {
				t.Errorf("an old descriptor reads %q, %v", b, err)
			}
			v.check(os.Remove(v.P + "/f"))
			var st unix.Stat_t
			if err := unix.Fstat(int(old.Fd()), &st); err != nil || st.Nlink != 0 {
				t.Errorf("links of a removed file: %d, %v", st.Nlink, err)
			}
		})
	}
}

// Opening a closed file in a closed directory, both of the upper, takes the rights to both
// for a moment.
func TestClosedFileInAClosedDirectory(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{}, `true`)
	v.sh(`mkdir d; echo x >d/f; chmod 000 d/f; chmod 000 d`)
	v.remount()
	v.sh(`[ "$(cat d/f)" = x ]; echo y >d/f; chmod 400 d/f; [ "$(stat -c %a d d/f | tr '\n' ' ')" = "0 400 " ]`)
}

// A directory that may be read and not be searched lists its names, of which nothing more
// can be told.
func TestUnsearchableDirectoryIsListed(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{NoCaps: true}, `mkdir d; echo x >d/f; mkdir d/sub; chmod 444 d`)
	v.sh(`test "$(ls -U d | sort | tr '\n' ' ')" = "f sub "; mkdir e; echo y >e/g; chmod 444 e; test "$(ls -U e)" = g; sync e`)
	v.check(sh(v.lower, "chmod 755 d"))
	v.live, v.masked = true, true
	v.sh(`chmod 755 e`)
}
