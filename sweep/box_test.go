package sweep

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/internal/scratch"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// box is a real state root with a runtime directory.
type box struct {
	t       *testing.T
	store   *session.Store
	runtime string
}

// newBox makes a state root whose name needs escapes in a mount table.
func newBox(t *testing.T) *box {
	t.Helper()
	dir, err := filepath.EvalSymlinks(testbox.TempDir(t))
	must(t, err)
	must(t, os.MkdirAll(dir+"/run/s", 0o700))
	if os.Geteuid() == 0 {
		must(t, os.Chown(dir, 0, 0))
	}
	store, err := session.OpenStore(dir + "/st ate\tx\\y\nz")
	must(t, err)
	t.Cleanup(store.Close)
	return &box{t, store, dir + "/run"}
}

func (b *box) create(id session.ID, state session.State, r session.Running) string {
	b.t.Helper()
	bootID, err := proc.Boot()
	must(b.t, err)
	rec := session.Record{
		ID: id, State: state, UID: os.Geteuid(), GID: os.Getegid(), Created: time.Now().Add(-time.Hour).UTC(),
		Running: r, Boot: bootID, Network: "off", Backend: "auto",
		Project: session.Place{Spelled: "/p", Real: "/p", Dev: 1, Ino: 1}, Home: session.Place{Spelled: "/h", Real: "/h", Dev: 1, Ino: 2},
	}
	must(b.t, b.store.Create(rec, nil))
	if got, err := b.store.Load(id); err != nil || got.State != state {
		b.t.Fatalf("Load = %+v, %v, want state %s", got, err, state)
	}
	return b.data(id)
}

// data makes the data directory of id.
func (b *box) data(id session.ID) string {
	dir := b.store.DataDir(os.Geteuid(), id)
	must(b.t, os.MkdirAll(dir+"/project/upper", 0o700))
	return dir
}

// known is what the box is supposed to hold. Probes have a place of their own in it.
func (b *box) known() Known {
	b.t.Helper()
	k, err := KnownOf(b.store, b.runtime, nil)
	must(b.t, err)
	if k.Scratch != scratch.Place {
		b.t.Errorf("probes are looked for in %q", k.Scratch)
	}
	k.Scratch = b.store.Path() + "/tmp"
	return k
}

func (b *box) run(dry bool) map[string]api.SweepItem {
	b.t.Helper()
	k := b.known()
	out, err := Run(b.t.Context(), k, Local{Store: b.store}, dry)
	must(b.t, err)
	items := map[string]api.SweepItem{}
	for _, i := range out.Items {
		items[i.Kind+" "+i.What] = i
	}
	return items
}

func (b *box) state(id session.ID) session.State {
	r, err := b.store.Load(id)
	must(b.t, err)
	return r.State
}

// deadID is the identity of a process that has ended.
func deadID(t *testing.T) proc.ID {
	t.Helper()
	cmd, id := sleeper(t)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	return id
}

func sleeper(t *testing.T) (*exec.Cmd, proc.ID) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	id, err := proc.Of(cmd.Process.Pid)
	must(t, err)
	return cmd, id
}

// age makes everything in the state root older than Young, as far as sweep can tell: it
// goes by the change time, which only the clock sets, so the plan gets another clock.
func (b *box) aged() []Result {
	b.t.Helper()
	return b.agedOn(Local{Store: b.store})
}

func (b *box) agedOn(h Host) []Result {
	b.t.Helper()
	k := b.known()
	seen, err := Look(b.t.Context(), k)
	must(b.t, err)
	seen.Now = seen.Now.Add(2 * Young)
	return Apply(b.t.Context(), Make(seen, k), k, h)
}
