package execlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sort"

	"golang.org/x/sys/unix"
)

// indexFile holds one JSON line for the start of each command and one for its end. A
// line says everything of its command; the last one of an id counts.
const indexFile = "index.jsonl"

// maxLine bounds a line in bytes: words, message and the rest.
const maxLine = 64 << 10

// Read returns the commands of the log in dir, oldest first, without opening it.
func Read(dir string) ([]Entry, error) {
	l, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, s := range l.order {
		out = append(out, s.Entry())
	}
	return out, nil
}

// loadIndex reads the index and reports whether it holds a line that is none, such as
// the half of one that a crash leaves.
func (l *Log) loadIndex() (torn bool, err error) {
	f, err := os.OpenFile(l.path(indexFile), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	entries := map[uint32]Entry{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		var e Entry
		l.lines++
		if json.Unmarshal(in.Bytes(), &e) != nil || e.ID == 0 || e.Output < 0 {
			torn = true
			continue
		}
		entries[e.ID] = e
	}
	if in.Err() != nil && !errors.Is(in.Err(), bufio.ErrTooLong) {
		return false, in.Err()
	}
	for _, e := range entries {
		l.add(e)
		l.last = max(l.last, e.ID)
	}
	sort.Slice(l.order, func(i, j int) bool { return l.order[i].entry.ID < l.order[j].entry.ID })
	return torn || in.Err() != nil || !endsInNewline(f), nil
}

func endsInNewline(f *os.File) bool {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return err == nil
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], st.Size()-1)
	return err == nil && b[0] == '\n'
}

// note appends a line. The caller holds mu.
func (l *Log) note(e *Entry) {
	line, err := json.Marshal(e)
	if err != nil {
		l.err = err
		return
	}
	if l.index == nil {
		l.index, l.err = os.OpenFile(l.path(indexFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if l.err != nil {
			l.index = nil
			return
		}
	}
	n, err := l.index.Write(append(line, '\n'))
	l.err = err
	if err != nil && n > 0 {
		l.compact() // half a line would spoil the next one
		return
	}
	if l.lines++; l.lines > 4*l.opt.Keep {
		l.compact()
	}
}

// compact forgets the oldest ended commands over Keep and writes the index anew. The
// caller holds mu, or nobody else has the log.
func (l *Log) compact() {
	l.forget()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, s := range l.order {
		if err := enc.Encode(&s.entry); err != nil {
			l.err = err
			return
		}
	}
	name := l.path(indexFile)
	if err := os.WriteFile(name+".new", b.Bytes(), 0o600); err != nil {
		l.err = err
		_ = os.Remove(name + ".new")
		return
	}
	if err := os.Rename(name+".new", name); err != nil {
		l.err = err
		return
	}
	if l.index != nil {
		_ = l.index.Close() // the next line opens the new one
		l.index = nil
	}
	l.lines = len(l.order)
}

// forget drops, with their output, the commands over Keep that ended first and that nobody
// reads. The caller holds mu.
func (l *Log) forget() {
	var ended []*Stream
	for _, s := range l.order {
		if !s.entry.Running() && len(s.readers) == 0 {
			ended = append(ended, s)
		}
	}
	sort.SliceStable(ended, func(i, j int) bool { return ended[i].entry.Ended.Before(ended[j].entry.Ended) })
	over := max(len(l.order)-l.opt.Keep, 0)
	for _, s := range ended[:min(over, len(ended))] {
		for len(s.segments) > 0 {
			l.drop(s.segments[0])
		}
		delete(l.streams, s.entry.ID)
	}
	l.order = slices.DeleteFunc(l.order, func(s *Stream) bool { return l.streams[s.entry.ID] == nil })
}
