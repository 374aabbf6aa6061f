//go:build sbxdtest

package fault

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

type rule struct {
	op     string
	n      int
	action string
	seen   int
}

var state struct {
	sync.Mutex // guards the fields below
	env        string
	rules      []*rule
	file, log  *os.File // open for good: a holder soon has another /tmp
}

// faults returns what SBXD_FAULT says, or the file whose name stands in it behind '@'.
func faults() string {
	name, isFile := strings.CutPrefix(os.Getenv("SBXD_FAULT"), "@")
	if !isFile {
		return name
	}
	if state.file == nil {
		f, err := os.Open(name)
		if err != nil {
			panic("SBXD_FAULT: " + err.Error())
		}
		state.file = f
	}
	b, err := io.ReadAll(io.NewSectionReader(state.file, 0, 1<<16))
	if err != nil {
		panic("SBXD_FAULT: " + err.Error())
	}
	return strings.TrimSpace(string(b))
}

// hit reads the faults on each call, so that a test can set them; counting starts
// again when they change. With SBXD_FAULT_LOG=FILE each name is appended to FILE, so
// that a test can learn how many effects there are.
func hit(op string) error {
	state.Lock()
	defer state.Unlock()
	trace(op)
	if env := faults(); env != state.env {
		state.env, state.rules = env, parse(env)
	}
	var out error
	for _, r := range state.rules {
		if begin, ok := strings.CutSuffix(r.op, "*"); r.op != op && (!ok || !strings.HasPrefix(op, begin)) {
			continue
		}
		if r.seen++; r.seen == r.n {
			out = act(op, r.action)
		}
	}
	return out
}

func act(op, action string) error {
	switch action {
	case "enospc":
		return fmt.Errorf("injected fault at %s: %w", op, unix.ENOSPC)
	case "kill":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		unix.Exit(137) // the first process of a pid namespace is not killed from within
	case "stop":
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		for now := faults(); os.Getpid() == 1 && faults() == now; { // nor stopped
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	return fmt.Errorf("injected fault at %s: %w", op, unix.EIO)
}

// parse panics on a fault that cannot be read: a test that injects nothing must
// not pass.
func parse(env string) []*rule {
	var out []*rule
	for f := range strings.SplitSeq(env, ",") {
		if f == "" {
			continue
		}
		p := strings.Split(f, ":")
		if len(p) != 3 {
			panic("SBXD_FAULT: want op:n:action, got " + f)
		}
		n, err := strconv.Atoi(p[1])
		if err != nil || n < 1 || !slices.Contains([]string{"fail", "enospc", "kill", "stop"}, p[2]) {
			panic("SBXD_FAULT: want op:n:action, got " + f)
		}
		out = append(out, &rule{op: p[0], n: n, action: p[2]})
	}
	return out
}

func trace(op string) {
	name := os.Getenv("SBXD_FAULT_LOG")
	if name == "" {
		return
	}
	if state.log == nil || state.log.Name() != name {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return
		}
		state.log = f
	}
	_, _ = state.log.WriteString(op + "\n")
}
