package land

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const journalMagic = "sbxd-journal-1\n"

// encodeOps is the content of a journal. The step's number names its slot.
func encodeOps(ops []Op) []byte {
	e := &encoder{}
	e.uint(uint64(len(ops)))
	for i := range ops {
		e.uint(uint64(ops[i].Kind))
		e.path(ops[i].Path)
		e.nodes(ops[i].New)
		e.nodes(ops[i].Old)
		e.uint(uint64(ops[i].Mode)<<1 | bit(ops[i].OtherMode))
	}
	return e.seal(journalMagic)
}

func bit(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}

func decodeOps(b []byte) ([]Op, error) {
	d, err := unseal(journalMagic, b)
	if err != nil {
		return nil, err
	}
	n := d.count()
	ops := make([]Op, 0, min(n, 1<<16))
	for i := 0; i < n && d.err == nil; i++ {
		op := Op{Kind: OpKind(d.u32()), Path: d.path()} //nolint:gosec // checked below
		op.New, op.Old = d.nodes(), d.nodes()
		mode := d.uint()
		op.Mode, op.OtherMode = uint32(mode>>1)&permBits, mode&1 != 0 //nolint:gosec // masked
		if op.Kind > Settle || !op.valid() {
			d.fail()
		}
		ops = append(ops, op)
	}
	return ops, d.end()
}

// valid reports whether an op has the sides that its kind needs.
func (o *Op) valid() bool {
	n, m := len(o.New) > 0, len(o.Old) > 0
	switch o.Kind {
	case Create:
		return n && !m
	case Remove:
		return !n && m
	case Settle:
		return true
	default:
		return n && m
	}
}

// journal reads the steps of a landing; nil if it was never prepared.
func (s store) journal(id string) ([]Op, error) {
	b, err := os.ReadFile(s.path(id, journalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ops, err := decodeOps(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.path(id, journalFile), err)
	}
	return ops, nil
}
