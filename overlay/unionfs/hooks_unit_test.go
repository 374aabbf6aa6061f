package unionfs

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/mnt"
	"github.com/sbxd/sbxd/overlay"
)

// hooked mounts a view served by this process, of a lower that setup fills and of pins
// beside it. Only programs of their own use it.
func hooked(t *testing.T, opt Options, setup string) (dir string, s *Server) {
	t.Helper()
	dir = t.TempDir()
	var layers [4]*os.File
	for i, n := range []string{"lower", "pins", "upper", "work", "view"} {
		if err := os.Mkdir(dir+"/"+n, 0o755); err != nil {
			t.Fatal(err)
		}
		if i < len(layers) {
			f, err := os.Open(dir + "/" + n)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			layers[i] = f
		}
	}
	if err := sh(dir+"/lower", setup); err != nil {
		t.Fatal(err)
	}
	dev, err := OpenDevice()
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, err := Mount(dev, MountOptions{AllowOther: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if s, err = Serve(dev, overlay.Spec{Lowers: layers[:2], Upper: layers[2], Work: layers[3]}, opt); err != nil {
		t.Fatal(err)
	}
	if err := mnt.Move(int(m.Fd()), unix.AT_FDCWD, dir+"/view"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = mnt.Detach(dir + "/view")
		s.Wait()
	})
	return dir, s
}

type hooks struct {
	mu    sync.Mutex
	notes []string
	bases map[string]string
	ask   func(ctx context.Context, q Question) error
	panic string
}

func (h *hooks) Note(n Note) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.panic != "" && n.Path == h.panic {
		panic("as asked")
	}
	h.notes = append(h.notes, n.Op.String()+" "+n.Path)
}

func (h *hooks) Keep(path string, lower *os.File) error {
	b, err := io.ReadAll(lower)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bases[path] = string(b)
	return err
}

func (h *hooks) Ask(ctx context.Context, q Question) error { return h.ask(ctx, q) }

func TestJournalAndBases(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	h := &hooks{bases: map[string]string{}}
	masks, err := compile("**/.env")
	if err != nil {
		t.Fatal(err)
	}
	dir, s := hooked(t, Options{Journal: h, Bases: h, Masks: masks}, `mkdir d; echo base >d/f; echo r >r`)
	err = sh("/", `cd $V; cat r r >/dev/null; echo new >d/f; mkdir e; mv d/f e/g; rm r; ! echo x 2>/dev/null >.env`, "V="+dir+"/view")
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	got := strings.Join(h.notes, "\n")
	for _, want := range []string{"read r", "write d/f", "copy-up d/f", "create e", "rename d/f", "remove r", "refused .env"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not in the journal once:\n%s", want, got)
		}
	}
	if h.bases["d/f"] != "base\n" {
		t.Errorf("bases: %q", h.bases)
	}
	if s.Stats().Panics != 0 {
		t.Error("a panic")
	}
}

// A question holds its caller alone, who can be killed.
func TestAskHoldsNobodyElse(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	asked, answer := make(chan Question, 10), make(chan error)
	h := &hooks{ask: func(ctx context.Context, q Question) error {
		if !strings.HasPrefix(q.Path, "held") {
			return nil
		}
		asked <- q
		select {
		case err := <-answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	dir, _ := hooked(t, Options{Asker: h}, `echo 1 >held1; echo 2 >held2; echo 3 >free`)
	env := "V=" + dir + "/view"
	done := make(chan error, 1)
	go func() { done <- sh("/", `test "$(cat $V/held1)" = 1`, env) }()
	if q := <-asked; q.Path != "held1" || q.Write || q.Dir {
		t.Errorf("asked: %+v", q)
	}
	if err := sh("/", `cd $V; ls -l; cat free; echo new >new; mv new newer; rm newer; stat held1`, env); err != nil {
		t.Errorf("beside a held opening: %v", err)
	}
	answer <- nil
	if err := <-done; err != nil {
		t.Errorf("an allowed opening: %v", err)
	}
	go func() { done <- sh("/", `cat $V/held2`, env) }()
	<-asked
	answer <- errors.New("no")
	if <-done == nil {
		t.Error("a refused opening works")
	}
	if err := sh("/", `cat $V/held2 & sleep 0.3; kill -9 $!; wait $! || true`, env); err != nil {
		t.Error(err)
	}
	go func() { done <- sh("/", `echo x >$V/held3`, env) }() // made, then asked for
	if q := <-asked; q.Path == "held2" {
		q = <-asked
		_ = q
	}
	answer <- nil
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("a creation hangs")
	}
}

// A panic in a handler is an error of its caller, and is counted.
func TestPanicEndsOneRequest(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	h := &hooks{panic: "bad"}
	dir, s := hooked(t, Options{Journal: h}, `echo 1 >good; echo x >bad`)
	for _, bad := range []string{`cat $V/bad`, `chmod 700 $V/bad`, `rm $V/bad`, `mkdir $V/bad`} {
		if sh("/", bad, "V="+dir+"/view") == nil {
			t.Errorf("%s works", bad)
		}
		if err := sh("/", `cd $V; cat good; echo 2 >good; echo 3 >new; rm new; ls`, "V="+dir+"/view"); err != nil {
			t.Error(err)
		}
	}
	if s.Stats().Panics == 0 {
		t.Error("no panic was counted")
	}
}

func TestProbe(t *testing.T) {
	if os.Getenv("SBXD_TEST_WITHOUT") == "" {
		dir := t.TempDir()
		if err := Probe(dir); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
	var e *overlay.ProbeError
	if err := Probe("/proc/self"); !errors.As(err, &e) || e.Step != "directory" || e.Remedy == "" {
		t.Errorf("probe in /proc: %v", err)
	}
}
