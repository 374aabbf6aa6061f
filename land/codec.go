package land

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sbxd/sbxd/internal/safefs"
	"github.com/sbxd/sbxd/overlay"
)

// errTorn is a record of ours that is cut, changed, or of another version.
var errTorn = errors.New("record is damaged or of another version")

// encoder writes the compact form of manifests, patches and journals: varints,
// and paths as the length they share with the one before and the rest.
type encoder struct {
	b    []byte
	last string
}

func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }

func (e *encoder) bool(v bool) {
	if v {
		e.uint(1)
		return
	}
	e.uint(0)
}

func (e *encoder) str(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) time(t safefs.Time) {
	e.int(t.Sec)
	e.uint(uint64(t.Nsec))
}

func (e *encoder) path(p string) {
	n := 0
	for n < len(p) && n < len(e.last) && p[n] == e.last[n] {
		n++
	}
	e.uint(uint64(n))
	e.str(p[n:])
	e.last = p
}

// Bits of a node's flags.
const (
	flagMount = 1 << iota
	flagUnsure
	flagDigest
	flagTarget
	flagXattrs
)

func (e *encoder) node(n *Node) {
	var flags uint64
	set := func(on bool, bit uint64) {
		if on {
			flags |= bit
		}
	}
	set(n.Mount, flagMount)
	set(n.Unsure, flagUnsure)
	set(n.Digest.Known(), flagDigest)
	set(n.Target != "", flagTarget)
	set(len(n.Xattrs) > 0, flagXattrs)
	e.path(n.Path)
	e.uint(flags)
	e.uint(uint64(n.Type))
	for _, v := range []uint32{n.Mode, n.UID, n.GID, n.Nlink} {
		e.uint(uint64(v))
	}
	e.uint(n.Ino)
	e.int(n.Size)
	e.time(n.MTime)
	e.time(n.CTime)
	if n.Target != "" {
		e.str(n.Target)
	}
	if n.Digest.Known() {
		e.b = append(e.b, n.Digest[:]...)
	}
	if len(n.Xattrs) > 0 {
		e.uint(uint64(len(n.Xattrs)))
		for _, k := range slices.Sorted(maps.Keys(n.Xattrs)) {
			e.str(k)
			e.str(string(n.Xattrs[k]))
		}
	}
}

func (e *encoder) nodes(ns []Node) {
	e.uint(uint64(len(ns)))
	for i := range ns {
		e.node(&ns[i])
	}
}

func (e *encoder) root(r Root) {
	e.uint(r.Dev)
	e.uint(r.Ino)
	e.time(r.BTime)
	e.str(r.Boot)
}

// seal returns what was written after its magic word and before its checksum.
func (e *encoder) seal(magic string) []byte {
	out := append([]byte(magic), e.b...)
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

// decoder reads what an encoder wrote. After the first fault every read gives
// zero, and err says so.
type decoder struct {
	b    []byte
	last string
	err  error
}

// unseal checks magic word and checksum.
func unseal(magic string, b []byte) (*decoder, error) {
	n := len(b) - sha256.Size
	if n < len(magic) || string(b[:len(magic)]) != magic || sha256.Sum256(b[:n]) != [sha256.Size]byte(b[n:]) {
		return nil, fmt.Errorf("read %s: %w", magic[:len(magic)-1], errTorn)
	}
	return &decoder{b: b[len(magic):n]}, nil
}

func (d *decoder) fail() {
	d.err = errTorn
	d.b = nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bool() bool { return d.uint() != 0 }

func (d *decoder) u32() uint32 {
	v := d.uint()
	if v > 1<<32-1 {
		d.fail()
		return 0
	}
	return uint32(v)
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) str() string       { return string(d.take(d.uint())) }
func (d *decoder) time() safefs.Time { return safefs.Time{Sec: d.int(), Nsec: d.u32()} }

func (d *decoder) path() string {
	n := d.uint()
	if n > uint64(len(d.last)) {
		d.fail()
		return ""
	}
	d.last = d.last[:n] + d.str()
	return d.last
}

func (d *decoder) node() Node {
	n := Node{Path: d.path()}
	flags := d.uint()
	n.Type = overlay.Type(d.u32()) //nolint:gosec // an unknown type compares equal to nothing
	n.Mode, n.UID, n.GID, n.Nlink = d.u32(), d.u32(), d.u32(), d.u32()
	n.Ino, n.Size = d.uint(), d.int()
	n.MTime, n.CTime = d.time(), d.time()
	n.Mount, n.Unsure = flags&flagMount != 0, flags&flagUnsure != 0
	if flags&flagTarget != 0 {
		n.Target = d.str()
	}
	if flags&flagDigest != 0 {
		copy(n.Digest[:], d.take(sha256.Size))
	}
	if flags&flagXattrs != 0 {
		n.Xattrs = map[string][]byte{}
		for range d.count() {
			k := d.str()
			n.Xattrs[k] = []byte(d.str())
		}
	}
	return n
}

// count reads a number of things that each take at least one byte.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n) //nolint:gosec // at most the length of a slice
}

func (d *decoder) nodes() []Node {
	n := d.count()
	out := make([]Node, 0, min(n, 1<<16))
	for i := 0; i < n && d.err == nil; i++ {
		out = append(out, d.node())
	}
	return out
}

func (d *decoder) root() Root {
	return Root{Dev: d.uint(), Ino: d.uint(), BTime: d.time(), Boot: d.str()}
}

// end reports a fault, or bytes that nobody read.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail()
	}
	return d.err
}
