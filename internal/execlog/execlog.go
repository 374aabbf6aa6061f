// Package execlog keeps what the commands of one session printed and how they ended, in
// one directory: an index with a line for each start and each end, and the output in
// segments, which all commands share as a ring, the oldest dropped first. The one idea
// is that a reader reads the files, live or later, so nobody holds output in memory; but
// for what a full disk does not take, a little of which is held for readers that are there.
//
// It knows bytes, offsets and exit codes. It must not know who runs the commands, nor
// who reads. One process writes; the files outlive it.
package execlog

import (
	"container/list"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Options bound a log. The zero value gives the defaults.
type Options struct {
	Max     int64 // bytes of output files in all; 64 MiB
	Segment int64 // bytes of one file; 1 MiB
	Keep    int   // ended commands in the index; 2,000
	// Held bounds what is held in memory, in bytes over all commands, while the disk
	// takes no more; 8 MiB, which is more than one command's readers may lag.
	Held int64
	// ReadOnly leaves the directory as it is. A command without an end is then shown
	// as running.
	ReadOnly bool
}

// Entry is one command, and a line of the index.
type Entry struct {
	ID      uint32    `json:"id"`
	Argv    []string  `json:"argv,omitempty"` // shortened
	TTY     bool      `json:"tty,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"` // zero while it runs
	Code    int       `json:"code"`
	Signal  int       `json:"signal,omitempty"`
	Message string    `json:"message,omitempty"`
	Output  int64     `json:"output,omitempty"` // bytes printed
}

// Running reports whether the command has not ended.
func (e *Entry) Running() bool { return e.Ended.IsZero() }

// ErrReadOnly is returned for a change of a log opened read-only.
var ErrReadOnly = errors.New("the log is open for reading only")

// Log is the log of a session. Its methods may be called by any goroutine.
type Log struct {
	dir string
	opt Options

	mu        sync.Mutex // guards the fields below, and all of streams and segments
	index     *os.File   // nil until the first line
	lines     int
	streams   map[uint32]*Stream
	order     []*Stream // by id
	ring      *list.List
	total     int64      // bytes that the segments take
	held      *list.List // segments in memory
	heldBytes int64
	readers   int
	last      uint32 // highest id
	err       error
	scratch   []byte
}

// Open opens the log in dir, which exists. Commands of an earlier process that have no
// end get one: their session ended under them.
func Open(dir string, opt Options) (*Log, error) {
	l := &Log{
		dir: dir, opt: opt.filled(), streams: map[uint32]*Stream{}, ring: list.New(), held: list.New(),
	}
	torn, err := l.loadIndex()
	if err != nil {
		return nil, fmt.Errorf("read the log's index: %w", err)
	}
	if err := l.loadSegments(); err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	if opt.ReadOnly {
		return l, nil
	}
	for _, s := range l.order {
		if s.entry.Running() {
			s.end(killedCode, killedSignal, "the session ended while it ran")
		}
	}
	if torn {
		l.compact()
	}
	l.shrink(nil)
	return l, nil
}

// What a command is said to have ended with that was there when its session ended: the
// kernel kills it with the session's first process.
const (
	killedSignal = 9
	killedCode   = 128 + killedSignal
)

func (o Options) filled() Options {
	if o.Max == 0 {
		o.Max = 64 << 20
	}
	if o.Segment == 0 {
		o.Segment = 1 << 20
	}
	if o.Keep == 0 {
		o.Keep = 2000
	}
	if o.Held == 0 {
		o.Held = 8 << 20
	}
	return o
}

// Create begins a command and gives it the next id. It works without room on the disk;
// Err then says what is missing.
func (l *Log) Create(argv []string, tty bool) (*Stream, error) {
	if l.opt.ReadOnly {
		return nil, ErrReadOnly
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	s := l.add(Entry{ID: l.last, Argv: shorten(argv), TTY: tty, Started: time.Now().UTC()})
	l.note(&s.entry)
	return s, nil
}

// add registers a command. The caller holds mu.
func (l *Log) add(e Entry) *Stream {
	s := &Stream{log: l, entry: e, size: e.Output, readers: map[*Reader]struct{}{}}
	l.streams[e.ID] = s
	l.order = append(l.order, s)
	return s
}

// Stream returns the command id, or nil.
func (l *Log) Stream(id uint32) *Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams[id]
}

// Streams returns all commands that are known, oldest first.
func (l *Log) Streams() []*Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*Stream(nil), l.order...)
}

// Readers is the number of open readers.
func (l *Log) Readers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readers
}

// Err returns why the last line or output could not be kept, and nil when it could.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close closes what is open. A command that still runs gets no end.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.order {
		s.seal()
	}
	if l.index != nil {
		_ = l.index.Close()
		l.index = nil
	}
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

// maxArgv bounds the words of a command in the index, in bytes over all.
const maxArgv = 1 << 10

// shorten keeps the first words of a command.
func shorten(argv []string) []string {
	var out []string
	left := maxArgv
	for _, w := range argv {
		if left <= 0 {
			return append(out, "…")
		}
		if len(w) > left {
			w = w[:left] + "…"
		}
		out = append(out, w)
		left -= len(w) + 1
	}
	return out
}
