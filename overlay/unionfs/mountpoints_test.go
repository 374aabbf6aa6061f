package unionfs

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A mount stays when its mountpoint is made again on the host, also when the event of that
// is lost; when a directory above it is replaced it goes, and what it hid is not seen.
func TestMountpointsKeepWhatTheyHide(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	masks, err := CompileMasks(nil, [][]string{{"secret"}, {"d", "e", "key"}, {"d", "box"}})
	if err != nil {
		t.Fatal(err)
	}
	dir, s := hooked(t, Options{Masks: masks}, `echo one >secret; mkdir -p d/e d/box; echo one >d/e/key; echo one >d/box/in; echo one >d/seen
		cd ../pins; : >secret; mkdir -p d/e d/box; : >d/e/key`)
	view, lower, env := dir+"/view", dir+"/lower", "V="+dir+"/view"
	mounts := func() int {
		b, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), " "+view+"/")
	}
	check := func(script string) {
		t.Helper()
		if err := sh("/", script, env); err != nil {
			t.Error(err)
		}
	}
	hidden := `cd $V; ! cat secret d/e/key d/box/in 2>/dev/null | grep .; test -z "$(ls -A d/box)"; ls -A | grep -q secret`
	check(hidden)
	check(`mkdir $V/../empty; : >$V/../file; cd $V; ls -lR . >/dev/null; for p in secret d/e/key; do mount --bind ../file $p; done; mount --bind ../empty d/box`)
	if n := mounts(); n != 3 {
		t.Fatalf("%d mounts, want 3", n)
	}
	for range 2 {
		if err := sh(lower, `rm -rf secret d/box; echo two >secret; echo two >d/e/t; mv d/e/t d/e/key; mkdir d/box; echo two >d/box/in; chmod 750 d; touch d/e`); err != nil {
			t.Fatal(err)
		}
		check(`sleep 0.1; ` + hidden)
		s.fs.expireAll()
		check(`sleep 0.1; ` + hidden)
		if n := mounts(); n != 3 {
			t.Errorf("%d mounts, want 3", n)
		}
	}
	if err := sh(lower, `mv d ..; mkdir -p d/e d/box; echo three >d/e/key; echo three >d/box/in; echo three >d/seen`); err != nil {
		t.Fatal(err)
	}
	check(`for i in $(seq 100); do grep -q three $V/d/seen && break; sleep 0.05; done; grep three $V/d/seen; ` + hidden)
	if n := mounts(); n != 1 {
		t.Errorf("%d mounts, want 1", n)
	}
	check(`cd $V/d; for c in ": >e/key" "rm e/key" "chmod 600 e/key" "mv seen e/key" "ln seen e/key" "mkdir box/x" "rmdir box" "mv box b" "mv e f" "rm -r e"; do ! sh -c "$c" 2>/dev/null || { echo "works: $c"; exit 1; }; done`)
	if up, err := os.ReadDir(dir + "/upper/d/box"); err == nil {
		t.Errorf("the upper has %v", up)
	}
}

// A directory that the host moves to where names are hidden has them hidden, though the
// kernel knows it by its old name with all that is in it.
func TestHostMovesDirectoryUnderMask(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	v := newView(t, stage{Masks: []string{"vault/*.key", "vault/*/k"}}, `mkdir -p a/b; echo x >a/x.key; echo k >a/b/k`)
	v.live, v.masked = true, true
	v.sh(`cat a/x.key a/b/k; ls -R`)
	held, err := os.Open(v.P + "/a/b")
	v.check(err)
	defer held.Close()
	v.check(sh(v.lower, `mv a vault`))
	v.eventually("the new name", absent(v.P+"/vault/x.key"))
	v.sh(`! cat vault/x.key; ! cat vault/b/k; test -z "$(ls vault/b)"; test "$(ls vault)" = b`)
	v.check(sh(v.lower, `mv vault a`))
	v.eventually("the old name again", reads(v.P+"/a/x.key", "x\n"))
	v.sh(`test "$(cat a/b/k)" = k`)
	var st unix.Stat_t
	v.check(unix.Fstat(int(held.Fd()), &st))
}
