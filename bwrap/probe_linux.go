package bwrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Identity tells whether a program is still the one that was probed.
type Identity struct {
	Dev, Ino uint64
	Modified int64 // nanoseconds since 1970
}

// Identify returns the identity of a program, through links: findings are kept by it.
func Identify(program string) (Identity, error) {
	var st unix.Stat_t
	if err := unix.Stat(program, &st); err != nil {
		return Identity{}, fmt.Errorf("look at %q: %w", program, err)
	}
	return Identity{Dev: st.Dev, Ino: st.Ino, Modified: st.Mtim.Nano()}, nil
}

// probeTime bounds each run of the program; one takes some milliseconds.
const probeTime = 10 * time.Second

// Probe runs the bubblewrap at program, an absolute path, with the arguments that a
// session uses, and finds out what it can do and whether it may do it here, for the uid
// that asks. It needs a directory in which to try (mode 0700, ours) and leaves it as it
// was. The error is a *ProbeError when bubblewrap cannot be used.
func Probe(ctx context.Context, program, dir string) (Findings, error) {
	f := Findings{Program: program}
	if err := checkPath("program", program); err != nil {
		return f, err
	}
	version, err := askVersion(ctx, program)
	if err != nil {
		return f, err
	}
	f.Version = version
	if f, err = tryOptions(ctx, f); err != nil {
		return f, err
	}
	f.CreatesThroughLinks, err = createsThroughLinks(ctx, program, dir)
	return f, err
}

func askVersion(ctx context.Context, program string) (string, error) {
	out, err := output(ctx, program, nil, "--version")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &ProbeError{Program: program, Reason: Missing, Remedy: install}
	case err != nil && ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", &ProbeError{Program: program, Reason: NotExecutable, Detail: oneLine(err.Error() + " " + out), Remedy: install}
	}
	version := oneLine(out)
	if !strings.HasPrefix(version, "bubblewrap ") {
		return "", &ProbeError{Program: program, Reason: NotBubblewrap, Detail: version, Remedy: install}
	}
	return version, nil
}

// tryOptions runs a sandbox that has all a session needs. An option that can be done
// without is left out when the program does not know it.
func tryOptions(ctx context.Context, f Findings) (Findings, error) {
	f.DisableUserns, f.Size = true, true
	optional := map[string]*bool{"--disable-userns": &f.DisableUserns, "--size": &f.Size}
	for {
		out, err := sandbox(ctx, f)
		if err == nil {
			return f, nil
		}
		if ctx.Err() != nil {
			return f, context.Cause(ctx)
		}
		known, ok := optional[unknownOption(out)]
		if !ok || !*known {
			return f, diagnose(f.Program, out, sysctl)
		}
		*known = false
	}
}

// sandbox runs the program in a sandbox of its own making, with the arguments in a file
// and the status on a descriptor, and returns what was printed.
func sandbox(ctx context.Context, f Findings) (string, error) {
	fd, err := memfd("bwrap-args", Arguments{Options: append(required(f), "--json-status-fd", "4")}.file())
	if err != nil {
		return "", fmt.Errorf("write the probe's arguments: %w", err)
	}
	args := os.NewFile(uintptr(fd), "arguments")
	defer args.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	out, err := output(ctx, f.Program, []*os.File{args, w}, "--args", "3", "--", f.Program, "--version")
	w.Close()
	if err != nil {
		return out, err
	}
	status, err := io.ReadAll(io.LimitReader(r, 4096))
	if err == nil && !strings.Contains(string(status), `"exit-code"`) {
		err = fmt.Errorf("there was no exit code in the status %q", status)
	}
	return out, err
}

// output runs the program with nothing in its environment but PATH, and extra files from
// descriptor 3 on, and returns what it printed on both outputs. It keeps its thread: the
// program may ask to be killed when the thread that started it ends.
func output(ctx context.Context, program string, extra []*os.File, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.ExtraFiles = extra
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func sysctl(name string) string {
	b, err := os.ReadFile(filepath.Join("/proc/sys", name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// createsThroughLinks lays a link out of a writable directory, in the way that the known
// fault takes, and looks whether something appears at its end.
func createsThroughLinks(ctx context.Context, program, dir string) (bool, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false, fmt.Errorf("find the probe's directory: %w", err)
	}
	scratch, err := os.MkdirTemp(dir, ".probe-")
	if err != nil {
		return false, fmt.Errorf("make a directory for the probe: %w", err)
	}
	defer os.RemoveAll(scratch)
	canary, project := filepath.Join(scratch, "canary"), filepath.Join(scratch, "project")
	if err := errors.Join(os.Mkdir(canary, 0o700), os.Mkdir(project, 0o700)); err != nil {
		return false, fmt.Errorf("make a directory for the probe: %w", err)
	}
	// While bubblewrap works, the host's root is below /oldroot.
	link := filepath.Join(project, "link")
	if err := os.Symlink("/oldroot"+canary, link); err != nil {
		return false, fmt.Errorf("make a link for the probe: %w", err)
	}
	// It may well fail: that is how newer versions refuse the link.
	_, _ = output(ctx, program, nil, "--unshare-user", "--ro-bind", "/", "/", "--bind", project, project,
		"--tmpfs", filepath.Join(link, "x"), "--", program, "--version")
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	left, err := os.ReadDir(canary)
	if err != nil {
		return false, fmt.Errorf("look at the probe's directory: %w", err)
	}
	return len(left) > 0, nil
}
