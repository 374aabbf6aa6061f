package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

// workEnv holds, for a process of this binary that is to be a worker, its work.
const workEnv = "SWEEP_TEST_WORK"

func work() {
	var w session.Work
	err := json.Unmarshal([]byte(os.Getenv(workEnv)), &w)
	if err == nil && w.To == "" {
		err = session.RemoveDir(w.Dir)
	} else if err == nil {
		err = session.ArchiveDir(w.Dir, w.To)
	}
	if err != nil {
		panic(err)
	}
}

// asUser does work as another uid, as the daemon's workers do.
func asUser(ctx context.Context, uid int, _ string, w session.Work) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = []string{workEnv + "=" + string(b)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestWhatIsAnotherUsersIsTouchedAsThatUser(t *testing.T) {
	testbox.Need(t, "root")
	uid, gid := testbox.AsUser(t)
	b := newBox(t)
	_, err := b.store.MakeOwner(uid, gid)
	must(t, err)
	dirs := []string{
		b.store.DataDir(uid, sid("e")) + "/project/upper/d", b.store.DataDir(uid, sid("f")),
		b.store.Of(uid) + "/pins/0123456789abcdef0123456789abcdef/.ssh",
	}
	for _, d := range dirs {
		must(t, os.MkdirAll(d, 0o700))
	}
	must(t, exec.Command("chown", "-R", fmt.Sprint(uid), b.store.Of(uid)).Run())
	host := Local{Store: b.store}
	for _, r := range b.agedOn(host) {
		if (r.Action == Remove || r.Action == Archive) && r.Err == nil {
			t.Errorf("%s %s worked without a way to act for the uid", r.Action, r.What)
		}
	}
	host.Work = asUser
	done := map[Action]int{}
	for _, r := range b.agedOn(host) {
		if done[r.Action]++; r.Err != nil {
			t.Errorf("%s %s: %v", r.Action, r.What, r.Err)
		}
	}
	if done[Archive] != 1 || done[Remove] != 2 {
		t.Errorf("done: %v", done)
	}
	st, err := os.Stat(b.store.Of(uid) + "/archive")
	must(t, err)
	if got := int(st.Sys().(*syscall.Stat_t).Uid); got != uid || st.Mode().Perm() != 0o700 {
		t.Errorf("the archive belongs to %d with mode %v", got, st.Mode())
	}
}
