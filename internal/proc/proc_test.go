package proc

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

func TestMain(m *testing.M) { testbox.Main(m) }

func start(t *testing.T) (*exec.Cmd, ID) {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, id
}

func TestLivenessFollowsTheProcess(t *testing.T) {
	cmd, id := start(t)
	if got := id.Alive(); got != Alive {
		t.Errorf("a running process is %v", got)
	}
	kids, err := Children(os.Getpid())
	if err != nil || !slices.Contains(kids, id.Pid) {
		t.Errorf("Children = %v, %v, want %d among them", kids, err, id.Pid)
	}
	if err := Kill(id, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Nobody has waited for it: a zombie is dead.
	if err := id.Wait(5 * time.Second); err != nil {
		t.Error(err)
	}
	if _, err := Of(id.Pid); !errors.Is(err, ErrGone) {
		t.Errorf("Of(zombie) = %v, want ErrGone", err)
	}
	if err := Kill(id, unix.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("Kill(zombie) = %v, want ErrGone", err)
	}
	_ = cmd.Wait()
	if got := id.Alive(); got != Dead {
		t.Errorf("a reaped process is %v", got)
	}
	if err := Kill(id, unix.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("Kill(reaped) = %v, want ErrGone", err)
	}
}

func TestAUsedAgainNumberIsNotTheProcess(t *testing.T) {
	cmd, id := start(t)
	for name, tc := range map[string]struct {
		id   ID
		want Liveness
	}{
		"other start": {ID{id.Pid, id.Start - 1, id.Boot}, Dead},
		"other boot":  {ID{id.Pid, id.Start, "x"}, Dead},
		"no start":    {ID{id.Pid, 0, id.Boot}, Unknown},
		"no boot":     {ID{id.Pid, id.Start, ""}, Unknown},
		"zero":        {ID{}, Unknown},
		"negative":    {ID{-1, 1, id.Boot}, Unknown},
	} {
		if got := tc.id.Alive(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		if err := Kill(tc.id, unix.SIGKILL); err == nil {
			t.Errorf("%s: Kill succeeded", name)
		}
	}
	if id.Alive() != Alive {
		t.Error("a wrong ID killed the process")
	}
	if err := Kill(ID{1, 1, id.Boot}, unix.SIGKILL); err == nil {
		t.Error("Kill of process 1 succeeded")
	}
	_ = cmd
}

func TestSelfSurvivesJSON(t *testing.T) {
	id, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	var got ID
	if err := json.Unmarshal(b, &got); err != nil || got != id || got.Alive() != Alive {
		t.Errorf("%s became %+v (%v), %v", b, got, err, got.Alive())
	}
	ns, err := NSInode(id.Pid, "mnt")
	if err != nil || ns == 0 {
		t.Errorf("NSInode = %d, %v", ns, err)
	}
}

func TestParseStatOfHostileNames(t *testing.T) {
	tail := " S 7 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1"
	for _, comm := range []string{"(sh)", "(a b)", "(x) R 1 (y)", "()", "(\n)", "())) Z 9"} {
		in := "12 " + comm + tail
		if comm == "())) Z 9" {
			in = "12 " + comm + ")" + tail
		}
		got, err := parseStat([]byte(in))
		if want := (info{'S', 7, 4242}); err != nil || got != want {
			t.Errorf("parseStat(%q) = %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "12 sh S 1", "12 (sh)", "12 (sh) S x 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 1 1"} {
		if got, err := parseStat([]byte(in)); err == nil {
			t.Errorf("parseStat(%q) = %+v, want an error", in, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (a) b) S 7 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parseStat(b) })
}
