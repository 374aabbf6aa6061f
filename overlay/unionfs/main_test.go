package unionfs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/overlay"
)

// serveStage is the process that stands for a shim: it serves the descriptor that
// a holder has mounted.
const serveStage = "SBXD_UNIONFS_TEST_SERVE"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case ProbeServeStage:
			ProbeServeMain()
			return
		case ProbeStage:
			ProbeMain()
			return
		}
	}
	if layers := os.Getenv(byHand); layers != "" {
		if err := serveByHand(strings.Split(layers, ",")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if conf := os.Getenv(serveStage); conf != "" {
		if err := serveMain(conf); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testbox.Main(m)
}

// stage is what a serving child is told.
type stage struct {
	Lowers              int
	Masks               []string
	MaxBytes, MaxInodes int64
	Watches             int
	Passthrough         bool
	NoCaps              bool
	Ask                 bool
	FDs                 uint64 // bound of open descriptors, 0 none
}

// apart is the backend as sessions use it: mounted here, served by a process of
// its own.
type apart struct {
	t     testing.TB
	stage stage

	mu      sync.Mutex // guards the field below
	servers []*child
}

// child is a server process.
type child struct {
	*exec.Cmd
	done chan struct{}
	err  error // once done is closed
}

// reap waits for all servers to end, which they do with their mounts. One that
// failed by itself (a panic that was counted, a race that was found) fails the test.
func (a *apart) reap() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.servers {
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
			a.t.Error("a server does not end")
			_ = c.Process.Kill()
			continue
		}
		if c.err != nil && !strings.Contains(c.err.Error(), "killed") {
			a.t.Errorf("a server: %v", c.err)
		}
	}
	a.servers = nil
}

func (*apart) Name() string       { return "unionfs" }
func (*apart) Probe(string) error { return errors.New("not for probing") }
func (a *apart) Mount(s overlay.Spec) (*os.File, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	dev, err := OpenDevice()
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	view, err := Mount(dev, MountOptions{Source: s.Source, AllowOther: true})
	if err != nil {
		return nil, err
	}
	err = a.serve(dev, s)
	if err == nil {
		err = Settle(view)
	}
	if err != nil {
		_ = view.Close()
		return nil, err
	}
	return view, nil
}

func (a *apart) serve(dev *os.File, s overlay.Spec) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	st := a.stage
	st.Lowers = len(s.Lowers)
	conf, err := json.Marshal(st)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), serveStage+"="+string(conf))
	cmd.ExtraFiles = append(append([]*os.File{dev, w}, s.Lowers...), s.Upper, s.Work)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	start := cmd.Start
	if st.NoCaps {
		start = func() error { return startWithout(cmd) }
	}
	if err := start(); err != nil {
		return err
	}
	w.Close()
	c := &child{Cmd: cmd, done: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || line != "ready\n" {
		return fmt.Errorf("the server did not start: %q, %w", line, err)
	}
	a.mu.Lock()
	a.servers = append(a.servers, c)
	a.mu.Unlock()
	return nil
}

func serveMain(conf string) error {
	var st stage
	if err := json.Unmarshal([]byte(conf), &st); err != nil {
		return err
	}
	if st.FDs > 0 {
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: st.FDs, Max: st.FDs})
	}
	file := func(i int) *os.File { return os.NewFile(uintptr(3+i), "fd"+strconv.Itoa(3+i)) }
	dev, ready := file(0), file(1)
	spec := overlay.Spec{}
	for i := range st.Lowers {
		spec.Lowers = append(spec.Lowers, file(2+i))
	}
	spec.Upper, spec.Work = file(2+st.Lowers), file(3+st.Lowers)
	opt, err := st.options(dev)
	if err != nil {
		return err
	}
	s, err := Serve(dev, spec, opt)
	if err != nil {
		return err
	}
	for _, f := range append(spec.Lowers, spec.Upper, spec.Work) {
		f.Close()
	}
	if !st.Passthrough {
		dev.Close()
	}
	Processors(1)
	fmt.Fprintln(ready, "ready")
	ready.Close()
	s.Wait()
	if n := s.Stats().Panics; n > 0 {
		return fmt.Errorf("%d panics", n)
	}
	return nil
}

// startWithout starts a program that has no capability: the thread that starts it
// gives up those that a new program would get, and ends.
func startWithout(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
		for c := range uintptr(unix.CAP_LAST_CAP + 1) {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
		done <- cmd.Start()
	}()
	return <-done
}

func (st stage) options(dev *os.File) (Options, error) {
	opt := Options{MaxBytes: st.MaxBytes, MaxInodes: st.MaxInodes, Watches: st.Watches}
	var err error
	if st.Ask {
		opt.Asker = yes{}
	}
	if st.Passthrough {
		opt.Backings = direct{dev}
	}
	if len(st.Masks) > 0 {
		opt.Masks, err = compile(st.Masks...)
	}
	return opt, err
}
