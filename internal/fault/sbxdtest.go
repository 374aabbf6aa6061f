//go:build sbxdtest

package fault

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

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
}

// hit reads the environment on each call, so that a test can set it; counting
// starts again when it changes. With SBXD_FAULT_LOG=FILE each name is appended
// to FILE, so that a test can learn how many effects there are.
func hit(op string) error {
	trace(op)
	state.Lock()
	defer state.Unlock()
	if env := os.Getenv("SBXD_FAULT"); env != state.env {
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
		select {}
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
		if err != nil || n < 1 || (p[2] != "fail" && p[2] != "enospc" && p[2] != "kill") {
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
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return
	}
	_, _ = f.WriteString(op + "\n")
	_ = f.Close()
}
