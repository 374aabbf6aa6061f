package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// testWorker starts a process of w's owner. Its diff lists the files of the project's
// upper directory, and its landing copies them: package land has the real ones.
type testWorker struct{}

type testRequest struct {
	Op   string
	Work session.Work
}

type testAnswer struct {
	Out json.RawMessage
	Err *api.Error
}

func (testWorker) Do(ctx context.Context, op string, w session.Work, out any) error {
	in, err := json.Marshal(testRequest{op, w})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = []string{stageEnv + "=worker", "SBXD_WORK=" + string(in)}
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.Record.UID), Gid: uint32(w.Record.GID)}}
	}
	b, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	var a testAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		return err
	}
	if out != nil && len(a.Out) > 0 {
		if err := json.Unmarshal(a.Out, out); err != nil {
			return err
		}
	}
	if a.Err != nil {
		return a.Err
	}
	return nil
}

func workerMain() {
	var r testRequest
	if err := json.Unmarshal([]byte(os.Getenv("SBXD_WORK")), &r); err != nil {
		panic(err)
	}
	out, err := testWork(r.Op, r.Work)
	var a testAnswer
	if err != nil {
		a.Err = session.APIError(err)
	}
	if out != nil {
		a.Out, _ = json.Marshal(out)
	}
	_ = json.NewEncoder(os.Stdout).Encode(a)
	os.Exit(0)
}

func testWork(op string, w session.Work) (any, error) {
	upper := filepath.Join(w.Dir, "project/upper")
	switch op {
	case session.WorkPlaces:
		return session.Resolve(w)
	case session.WorkPrepare:
		return session.Prepare(w)
	case session.WorkCapture:
		return nil, os.WriteFile(filepath.Join(w.Dir, "project/base/taken"), nil, 0o600)
	case session.WorkRemove:
		return nil, os.RemoveAll(w.Dir)
	case session.WorkDiff:
		entries, err := os.ReadDir(upper)
		d := api.Diff{ID: fmt.Sprint(len(entries))}
		for _, e := range entries {
			d.Changes = append(d.Changes, api.Change{Path: e.Name(), Op: "add", Type: "file"})
		}
		return d, err
	case session.WorkLand:
		l := api.Landing{ID: string(session.NewID()), Session: string(w.Record.ID), Project: w.Record.Project.Real, Time: time.Now(), State: "landed"}
		if w.Land.Expect == "drift" {
			l.Findings = []api.Finding{{ID: "f", Kind: "confirm"}}
			return l, &api.Error{Code: api.ExitDrift, Message: "it changed"}
		}
		dir := filepath.Join(w.Lands, l.ID)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		b, _ := json.Marshal(l)
		return l, os.WriteFile(filepath.Join(dir, "record"), b, 0o600)
	case session.WorkUndo:
		b, err := os.ReadFile(filepath.Join(w.Lands, w.Landing, "record"))
		if err != nil {
			return nil, session.ErrNotFound
		}
		var l api.Landing
		err = json.Unmarshal(b, &l)
		l.State, l.Undoes = "landed", l.ID
		return l, err
	case session.WorkLands, session.WorkRecover:
		names, _ := filepath.Glob(filepath.Join(w.Lands, "*/record"))
		list := []api.Landing{}
		for _, n := range names {
			var l api.Landing
			b, err := os.ReadFile(n)
			if err != nil || json.Unmarshal(b, &l) != nil || op == session.WorkRecover {
				continue
			}
			list = append(list, l)
		}
		return list, nil
	case session.WorkExecs:
		return []api.Command{{Exec: "1", Output: 3}}, nil
	case session.WorkLog:
		return []byte("old")[w.From:], nil
	case session.WorkExplain:
		return api.Explanation{Path: w.Path, Access: "writable", Rule: w.Record.Project.Real}, nil
	}
	return nil, fmt.Errorf("no operation %q", op)
}
