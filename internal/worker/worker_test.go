package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

// spy is an operation of tests only: it tells what a worker is.
const spy = "spy"

type seen struct {
	UID, GID int
	Groups   []int
	Env      []string
	Cwd      string
	Caps     string
	Content  string
	FDs      int
}

func TestMain(m *testing.M) {
	if os.Getenv("SBXD_STAGE") == Stage {
		operations[spy] = look
		operations["die"] = func(context.Context, session.Work) (any, error) {
			return nil, unix.Kill(os.Getpid(), unix.SIGKILL)
		}
		operations["plan"] = func(context.Context, session.Work) (any, error) {
			return api.Landing{ID: "x"}, &api.Error{Code: api.ExitConflict, Message: "both changed it"}
		}
		if err := Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testbox.Main(m)
}

func look(_ context.Context, w session.Work) (any, error) {
	groups, _ := os.Getgroups()
	cwd, _ := os.Getwd()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	_, caps, _ := strings.Cut(string(status), "CapEff:\t")
	caps, _, _ = strings.Cut(caps, "\n")
	fds, _ := os.ReadDir("/proc/self/fd")
	s := seen{UID: os.Geteuid(), GID: os.Getegid(), Groups: groups, Env: os.Environ(), Cwd: cwd, Caps: caps, FDs: len(fds)}
	if w.Path != "" {
		b, err := os.ReadFile(w.Path)
		if err != nil {
			return nil, err
		}
		s.Content = string(b)
	}
	return s, nil
}

func owner(t *testing.T) session.Record {
	t.Helper()
	uid, gid := testbox.AsUser(t)
	return session.Record{UID: uid, GID: gid}
}

func TestWorkerIsTheSessionsUser(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "s3cret")
	var s Starter
	r := owner(t)
	if os.Geteuid() == 0 {
		r.Groups = []int{r.GID, 4321}
	}
	var got seen
	if err := s.Do(t.Context(), spy, session.Work{Record: r}, &got); err != nil {
		t.Fatal(err)
	}
	if got.UID != r.UID || got.GID != r.GID || got.Cwd != "/" {
		t.Errorf("it is %+v; want uid %d, gid %d, in /", got, r.UID, r.GID)
	}
	if os.Geteuid() == 0 && !slices.Equal(slices.Sorted(slices.Values(got.Groups)), slices.Sorted(slices.Values(r.Groups))) {
		t.Errorf("groups %v, want %v", got.Groups, r.Groups)
	}
	if strings.Contains(strings.Join(got.Env, " "), "s3cret") {
		t.Errorf("it got our environment: %v", got.Env)
	}
	if !s.noNS.Load() && got.Caps != "0000000000000002" { // CAP_DAC_OVERRIDE alone
		t.Errorf("its capabilities are %s", got.Caps)
	}
}

func TestWorkerReadsWhatTheAgentLockedAndNothingElse(t *testing.T) {
	testbox.Need(t, "userns")
	r := owner(t)
	dir := testbox.TempDir(t)
	locked := filepath.Join(dir, "locked")
	must(t, os.Mkdir(locked, 0o700))
	must(t, os.WriteFile(filepath.Join(locked, "f"), []byte("mine"), 0o600))
	if os.Geteuid() == 0 {
		must(t, errors.Join(os.Chown(filepath.Join(locked, "f"), r.UID, r.GID), os.Chown(locked, r.UID, r.GID)))
	}
	must(t, errors.Join(os.Chmod(filepath.Join(locked, "f"), 0), os.Chmod(locked, 0)))
	var s Starter
	var got seen
	if err := s.Do(t.Context(), spy, session.Work{Record: r, Path: filepath.Join(locked, "f")}, &got); err != nil || got.Content != "mine" {
		t.Errorf("a file of mode 000: %q, %v", got.Content, err)
	}
	if os.Geteuid() != 0 {
		return
	}
	other := filepath.Join(dir, "other")
	must(t, os.WriteFile(other, []byte("root's"), 0o600))
	err := s.Do(t.Context(), spy, session.Work{Record: r, Path: other}, &got)
	var told *api.Error
	if !errors.As(err, &told) || told.Code != api.ExitDenied {
		t.Errorf("a file of root's: %v; want not permitted", err)
	}
}

func TestRemove(t *testing.T) {
	r := owner(t)
	dir := testbox.TempDir(t)
	data := filepath.Join(dir, "data")
	for _, d := range []string{data, data + "/a", data + "/a/b"} {
		must(t, os.Mkdir(d, 0o700))
		if os.Geteuid() == 0 {
			must(t, os.Chown(d, r.UID, r.GID))
		}
	}
	must(t, errors.Join(os.Symlink("/etc", data+"/a/link"), os.Chmod(data+"/a/b", 0), os.Chmod(data+"/a", 0)))
	var s Starter
	for range 2 {
		if err := s.Do(t.Context(), session.WorkRemove, session.Work{Record: r, Dir: data}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Lstat("/etc/passwd"); err != nil {
		t.Error(err)
	}
}

func TestErrorsComeBack(t *testing.T) {
	var s Starter
	r := owner(t)
	var told *api.Error
	if err := s.Do(t.Context(), "nonsense", session.Work{Record: r}, nil); !errors.As(err, &told) {
		t.Errorf("an unknown operation: %v", err)
	}
	if err := s.Do(t.Context(), "die", session.Work{Record: r}, nil); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a worker that was killed: %v", err)
	}
	var l api.Landing
	err := s.Do(t.Context(), "plan", session.Work{Record: r}, &l)
	if !errors.As(err, &told) || told.Code != api.ExitConflict || l.ID != "x" {
		t.Errorf("an error beside an answer: %+v, %v", l, err)
	}
	w := session.Work{Record: r, Root: "/nonexistent"}
	w.Record.Home.Spelled, w.Record.Project.Spelled = "/", "relative"
	if err := s.Do(t.Context(), session.WorkPlaces, w, nil); !errors.As(err, &told) || told.Hint == "" {
		t.Errorf("places: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gone away"))
	if err := s.Do(ctx, spy, session.Work{Record: r}, nil); err == nil {
		t.Error("an ended context started a worker")
	}
}

// A worker never works as root, and never for somebody that it is not.
func TestWorkerRefusesOtherUsers(t *testing.T) {
	var s Starter
	if err := s.Do(t.Context(), spy, session.Work{}, nil); !errors.Is(err, session.ErrRefused) {
		t.Errorf("as root: %v", err)
	}
	a := do(t.Context(), request{Op: session.WorkPrepare, Work: session.Work{Record: session.Record{UID: os.Geteuid() + 1}, Dir: "/x"}})
	if a.Err == nil || a.Err.Code != api.ExitDenied {
		t.Errorf("for another uid: %+v", a)
	}
}

func TestMainRefusesGarbage(t *testing.T) {
	for _, in := range []string{"", "{", "null x", strings.Repeat(" ", maxRequest+1)} {
		var out bytes.Buffer
		if err := Main(t.Context(), strings.NewReader(in), &out); err == nil {
			t.Errorf("%.20q: no error, answer %q", in, out.String())
		}
	}
	var out bytes.Buffer
	if err := Main(t.Context(), strings.NewReader("{}"), &out); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("an empty request: %q, %v", out.String(), err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
