package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/testbox"
)

// TestCasesTerminal are the cases that need a real terminal.
func TestCasesTerminal(t *testing.T) {
	testbox.Need(t, needSession...)
	testbox.Need(t, "bash")
	t.Run("B153 job control", func(t *testing.T) { t.Parallel(); jobControl(t) })
	t.Run("B155 window size", func(t *testing.T) { t.Parallel(); windowSize(t) })
	t.Run("B157 the caller's terminal", func(t *testing.T) { t.Parallel(); callersTerminal(t) })
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
	ctrlD = "\x04"
)

// jobControl: a shell inside has a terminal of its own, so that stop, continue and
// interrupt concern its jobs and nothing else. Seen in containers/bubblewrap#147, #343,
// fish-shell/fish-shell#9605.
func jobControl(t *testing.T) {
	b := served(t)
	id := b.run(t, 0, "start", "--project", b.project)
	s := onScreen(t, b.cmd("exec", "-t", id, "--", "bash", "--norc", "-i"), 30, 100)
	s.keys("tty; echo re''ady\r")
	s.wait(`/dev/(pts/|console)`)
	s.wait(`[\r\n]ready`)
	s.keys("echo g''o; cat\r")
	s.wait(`[\r\n]go`) // what is typed before is the shell's
	s.keys("first line\r")
	s.wait(`first line\s+first line`)
	s.keys(ctrlZ)
	s.wait(`(?i)stopped`)
	if st := stateOf(t, s.cmd.Process.Pid); st == "T" {
		t.Error("Ctrl-Z stopped the client outside")
	}
	s.keys("fg\r")
	s.wait(`fg[\s\S]*[\r\n]cat`)
	s.keys("second line\r")
	s.wait(`second line\s+second line`)
	s.keys(ctrlC)
	s.wait(`\^C[\s\S]*\$ $`)
	s.keys("echo rc=$?; sleep 1000\r")
	s.wait(`rc=130`)
	s.keys(ctrlC)
	s.wait(`\^C[\s\S]*\^C[\s\S]*\$ $`)
	s.keys("exit 3\r")
	if got := s.exit(); got != 3 {
		t.Errorf("exit code = %d, want 3", got)
	}
	for _, bad := range []string{"no job control", "Inappropriate ioctl", "not a terminal"} {
		if strings.Contains(s.text(), bad) {
			t.Errorf("%q in\n%s", bad, s.text())
		}
	}
}

// stateOf is the letter of /proc/PID/stat.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:1]
}

// windowSize: each change of size arrives within a second, also for a client that comes
// later with another size. Seen in containers/bubblewrap#573, GreyhavenHQ/greywall#15.
func windowSize(t *testing.T) {
	b := served(t)
	id := b.run(t, 0, "start", "--project", b.project)
	const program = `trap 'stty size' WINCH; trap exit HUP; stty size; while :; do sleep 0.05; done`
	s := onScreen(t, b.cmd("exec", "-t", id, "--", "sh", "-c", program), 24, 80)
	s.wait(`24 80`)
	for _, size := range [][2]uint16{{50, 132}, {10, 40}, {51, 133}} {
		start := time.Now()
		s.resize(size[0], size[1])
		s.wait(fmt.Sprintf(`\b%d %d\b`, size[0], size[1]))
		if took := time.Since(start); took > time.Second && !testing.Short() {
			t.Logf("%v took %v", size, took) // a loaded machine, or a fault: wait bounds it
		}
	}
	// This client dies; the command does not, and the next one has another size.
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
	execs, err := api.New(filepath.Join(b.dir, "run", "sbxd.sock")).Commands(t.Context(), id)
	if err != nil || len(execs) != 1 || !execs[0].Running {
		t.Fatalf("commands = %+v, %v, want the one that runs", execs, err)
	}
	s = onScreen(t, b.cmd("exec", "-t", "--attach", execs[0].Exec, id), 33, 90)
	s.wait(`\b33 90\b`)
	s.resize(34, 91)
	s.wait(`\b34 91\b`)
	s.keys(ctrlC)
	if got := s.exit(); got != 130 {
		t.Errorf("exit code = %d, want 130", got)
	}
}

// callersTerminal: without -t a command inside neither has nor changes the terminal,
// and the caller's shell stays in front. Seen in antirez/ds4#367,
// containers/bubblewrap#744.
func callersTerminal(t *testing.T) {
	testbox.Need(t, "ps")
	b := served(t)
	id := b.run(t, 0, "start", "--project", b.project)
	script := `b=$(stty -g)
sbxd exec ` + id + ` -- sh -c 'test -t 0 || echo in=pipe; test -t 1 || echo out=pipe; stty raw -echo </dev/tty 2>/dev/null; stty -F /dev/tty raw 2>/dev/null; tty; true'
echo first=$?
sbxd exec ` + id + ` -- cat
echo cat=$?
sbxd exec ` + id + ` -- sh -c 'cat; echo bg=done' &
sleep 0.5
read -r x
echo "read=$x"
kill $!; wait $!; echo "background=$?"
[ "$b" = "$(stty -g)" ] && echo settings=same
[ "$(ps -o tpgid= -p $$ | tr -d ' ')" = "$(ps -o pgid= -p $$ | tr -d ' ')" ] && echo shell=front
`
	cmd := exec.Command("bash", "--norc", "-c", "set -m\n"+script)
	cmd.Env, cmd.Dir = b.env, b.project
	s := onScreen(t, cmd, 24, 80)
	s.wait(`first=0`)
	s.keys("typed\r")
	s.wait(`typed\s+typed`)
	s.keys(ctrlD)
	s.wait(`cat=0`)
	time.Sleep(700 * time.Millisecond)
	s.keys("for the shell\r")
	s.wait(`read=for the shell`)
	for _, want := range []string{"background=", "in=pipe", "out=pipe", "not a tty", "settings=same", "shell=front"} {
		s.wait(want)
	}
	s.exit()
}
