// Package proc names processes so that the name stays true.
//
// The one idea: a process is its number, its start time and the boot, together.
// A bare number is used again, so nothing here signals or trusts one. The package
// reads /proc and nothing else; it must not know what a process does, and never
// looks at arguments.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/feature"
)

// ID names one process for ever. The zero ID names none.
type ID struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot: field 22 of /proc/PID/stat
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
}

// Liveness is what can be said of a process. Whoever destroys something treats
// Unknown as Alive; whoever relies on it treats Unknown as Dead.
type Liveness uint8

// The three answers.
const (
	Unknown Liveness = iota
	Alive
	Dead
)

func (l Liveness) String() string {
	return [...]string{"unknown", "alive", "dead"}[min(l, Dead)]
}

// ErrGone says that the process an ID names does not exist any more.
var ErrGone = errors.New("the process is gone")

var boot = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

// Boot returns the id of the running boot.
func Boot() (string, error) { return boot() }

// Self names the calling process.
func Self() (ID, error) { return Of(os.Getpid()) }

// Of names the process that has the number pid now; ErrGone when none has, or
// only a zombie.
func Of(pid int) (ID, error) {
	st, err := stat(pid)
	if err != nil {
		return ID{}, fmt.Errorf("name process %d: %w", pid, err)
	}
	if st.gone() {
		return ID{}, fmt.Errorf("name process %d: %w", pid, ErrGone)
	}
	b, err := Boot()
	if err != nil {
		return ID{}, fmt.Errorf("name process %d: %w", pid, err)
	}
	return ID{Pid: pid, Start: st.start, Boot: b}, nil
}

// Alive reports what is known of the process. A zombie is dead. An incomplete ID
// or a /proc that does not answer gives Unknown; another boot gives Dead.
func (id ID) Alive() Liveness {
	if id.Pid <= 0 || id.Start == 0 || id.Boot == "" {
		return Unknown
	}
	b, err := Boot()
	if err != nil || b == "" {
		return Unknown
	}
	if b != id.Boot {
		return Dead
	}
	st, err := stat(id.Pid)
	switch {
	case errors.Is(err, ErrGone):
		// With hidepid= a process of another uid looks gone. Signal 0 tells.
		if unix.Kill(id.Pid, 0) == unix.EPERM {
			return Unknown
		}
		return Dead
	case err != nil:
		return Unknown
	case st.start != id.Start, st.gone():
		return Dead
	}
	return Alive
}

// Kill sends sig to exactly that process: ErrGone when it is dead, an error when
// nothing certain is known of it. A pidfd taken before the check closes the gap
// between check and signal.
func Kill(id ID, sig unix.Signal) error {
	if id.Pid <= 1 {
		return fmt.Errorf("signal process %d: not a process of ours", id.Pid)
	}
	fd := -1
	if !feature.Off(feature.Pidfd) {
		var err error
		fd, err = unix.PidfdOpen(id.Pid, 0)
		if err == unix.ESRCH {
			return ErrGone
		}
		if err != nil && err != unix.ENOSYS {
			return fmt.Errorf("signal process %d: %w", id.Pid, err)
		}
	}
	if fd >= 0 {
		defer func() { _ = unix.Close(fd) }()
	}
	switch id.Alive() {
	case Dead:
		return ErrGone
	case Unknown:
		return fmt.Errorf("signal process %d: cannot tell whether it is still the same process", id.Pid)
	}
	var err error
	if fd >= 0 {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	} else {
		err = unix.Kill(id.Pid, sig)
	}
	if err == unix.ESRCH {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", id.Pid, err)
	}
	return nil
}

// Wait returns when the process is not alive any more, or with an error after d.
func (id ID) Wait(d time.Duration) error {
	const step = 2 * time.Millisecond
	for end := time.Now().Add(d); ; time.Sleep(step) {
		if id.Alive() == Dead {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("process %d is %v after %v", id.Pid, id.Alive(), d)
		}
	}
}

// info is what is used of /proc/PID/stat.
type info struct {
	state byte
	ppid  int
	start uint64
}

func (i info) gone() bool { return i.state == 'Z' || i.state == 'X' || i.state == 'x' }

func stat(pid int) (info, error) {
	if pid <= 0 {
		return info{}, ErrGone
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return info{}, ErrGone
	}
	if err != nil {
		return info{}, err
	}
	return parseStat(b)
}

// parseStat reads fields 3, 4 and 22. The second is the command in parentheses,
// which may hold anything, also parentheses, so counting starts at the last one.
func parseStat(b []byte) (info, error) {
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	const state, ppid, start = 0, 1, 19
	if i < 0 || len(f) <= start || len(f[state]) != 1 {
		return info{}, errors.New("read /proc/PID/stat: not in the expected form")
	}
	p, err := strconv.Atoi(f[ppid])
	if err != nil {
		return info{}, fmt.Errorf("read the parent in /proc/PID/stat: %w", err)
	}
	s, err := strconv.ParseUint(f[start], 10, 64)
	if err != nil {
		return info{}, fmt.Errorf("read the start time in /proc/PID/stat: %w", err)
	}
	return info{state: f[state][0], ppid: p, start: s}, nil
}
