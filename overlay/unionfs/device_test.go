package unionfs

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// keeper holds a copy-up until it is told to go on.
type keeper struct{ begun, goOn chan struct{} }

func (k keeper) Keep(string, *os.File) error {
	close(k.begun)
	<-k.goOn
	return nil
}

// A request that takes long though nothing about it says so has another reader called in
// its place.
func TestSlowRequestHoldsNobodyElse(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	k := keeper{make(chan struct{}), make(chan struct{})}
	dir, s := hooked(t, Options{Bases: k}, `echo 1 >slow; echo 2 >free`)
	env := "V=" + dir + "/view"
	done := make(chan error, 1)
	go func() { done <- sh("/", `chmod 600 $V/slow`, env) }()
	<-k.begun
	for range 3 { // the second time nobody watches any more
		if err := sh("/", `cd $V; cat free; echo new >new; mkdir d; mv new d; rm -r d; ls -l`, env); err != nil {
			t.Errorf("beside a slow request: %v", err)
		}
		eventually(t, "watching ends", func() bool { return !s.fs.device.state().watching })
	}
	select {
	case err := <-done:
		t.Errorf("the slow request is answered: %v", err)
	default:
	}
	close(k.goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Any number of openings may be held at once, and the goroutines that held them are gone
// afterwards.
func TestManyHeldOpenings(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	const many = 100
	asked, goOn := make(chan struct{}, many), make(chan struct{})
	h := &hooks{ask: func(_ context.Context, q Question) error {
		if q.Path == "held" {
			asked <- struct{}{}
			<-goOn
		}
		return nil
	}}
	dir, s := hooked(t, Options{Asker: h}, `echo 1 >held; echo 2 >free`)
	env := "V=" + dir + "/view"
	done := make(chan error, 1)
	go func() {
		done <- sh("/", `p=; for i in $(seq `+strconv.Itoa(many)+`); do cat $V/held >/dev/null & p="$p $!"; done; for i in $p; do wait $i; done`, env)
	}()
	eventually(t, "all of them are asked for", func() bool { return len(asked) == many })
	if err := sh("/", `cd $V; cat free; echo new >new; rm new; ls -l`, env); err != nil {
		t.Errorf("beside held openings: %v", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	eventually(t, "the goroutines end", func() bool {
		d := s.fs.device.state()
		return d.reading && d.parked <= maxParked
	})
}

// The descriptor of a mount that is gone is closed once, after the last answer.
func TestUnmountedWhileHeld(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	asked := make(chan struct{}, 1)
	h := &hooks{ask: func(ctx context.Context, q Question) error {
		if q.Path != "held" {
			return nil
		}
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	dir, s := hooked(t, Options{Asker: h}, `echo 1 >held`)
	done := make(chan error, 1)
	go func() { done <- sh("/", `cat $V/held`, "V="+dir+"/view") }()
	<-asked
	if err := unix.Unmount(dir+"/view", unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if <-done == nil {
		t.Error("a held opening is answered after its mount was forced away")
	}
	s.Wait()
	if err := s.fs.device.notify(forgetInode(rootID, -1)); err == nil {
		t.Error("a notice is sent after the last answer")
	}
}

// deviceState is what a device is about.
type deviceState struct {
	reading, watching bool
	parked            int
	taken             uint64
}

func (d *device) state() deviceState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return deviceState{d.reading, d.watching, d.parked, d.taken}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in ten seconds", what)
		}
	}
}
