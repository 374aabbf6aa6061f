package land

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/internal/safefs"
	"golang.org/x/sys/unix"
)

// errMoving is a file that changed while it was read.
var errMoving = errors.New("file keeps changing while it is read")

// blockSize is the unit of reading and writing: large enough that system calls do
// not count, small enough for a hundred at a time.
const blockSize = 128 << 10

var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

var zeros [blockSize]byte

// openFile opens the regular file name of dir and describes it. A descriptor that
// is not a regular file is closed again and refused.
func openFile(dir *safefs.Dir, name string) (*os.File, safefs.Stat, error) {
	f, err := dir.Open(name, unix.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, safefs.Stat{}, err
	}
	st, err := safefs.StatFD(int(f.Fd()))
	if err == nil && !st.IsRegular() {
		err = fmt.Errorf("read %s: %w", Quote(name), safefs.ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, safefs.Stat{}, err
	}
	return f, st, nil
}

// unchanged reports whether two looks at one descriptor saw the same file.
func unchanged(a, b safefs.Stat) bool {
	return a.Ino == b.Ino && a.Size == b.Size && a.Mode == b.Mode && a.Mtime == b.Mtime && a.Ctime == b.Ctime
}

// pour reads the file src, described by st, to its end, and writes it to dst,
// unless that is nil. Holes stay holes. It returns the digest, and errMoving if
// the file was not the same before and after.
func pour(ctx context.Context, dst, src *os.File, st safefs.Stat) (Digest, error) {
	p := pourer{ctx: ctx, dst: dst, src: src, sum: sha256.New(), buf: blocks.Get().(*[blockSize]byte)}
	defer blocks.Put(p.buf)
	if err := p.run(st); err != nil {
		return Digest{}, err
	}
	now, err := safefs.StatFD(int(src.Fd()))
	if err != nil {
		return Digest{}, err
	}
	if !unchanged(st, now) {
		return Digest{}, errMoving
	}
	return Digest(p.sum.Sum(nil)), nil
}

type pourer struct {
	ctx      context.Context
	dst, src *os.File
	sum      hash.Hash
	buf      *[blockSize]byte
}

// sparseFrom is the size below which looking for holes costs more than it saves.
const sparseFrom = 64 << 10

func (p *pourer) run(st safefs.Stat) error {
	if st.Size < sparseFrom {
		return p.data(0, st.Size)
	}
	for at := int64(0); at < st.Size; {
		from, err := unix.Seek(int(p.src.Fd()), at, unix.SEEK_DATA)
		switch {
		case err == unix.ENXIO:
			from = st.Size
		case err != nil:
			from = at // the file system does not say: all is data
		}
		if from = min(from, st.Size); from > at {
			if err := p.hole(from - at); err != nil {
				return err
			}
		}
		to, err := unix.Seek(int(p.src.Fd()), from, unix.SEEK_HOLE)
		if err != nil || to > st.Size || to <= from {
			to = st.Size
		}
		if err := p.data(from, to); err != nil {
			return err
		}
		at = to
	}
	if p.dst == nil {
		return nil
	}
	return p.dst.Truncate(st.Size)
}

func (p *pourer) hole(n int64) error {
	for n > 0 {
		k := min(n, blockSize)
		p.sum.Write(zeros[:k])
		if n -= k; p.ctx.Err() != nil {
			return p.ctx.Err()
		}
	}
	return nil
}

func (p *pourer) data(from, to int64) error {
	for from < to {
		k, err := p.src.ReadAt(p.buf[:min(to-from, blockSize)], from)
		if k == 0 {
			if err == io.EOF {
				return errMoving
			}
			return err
		}
		p.sum.Write(p.buf[:k])
		if p.dst != nil {
			if err := fault.Hit("land.stage.write"); err != nil {
				return err
			}
			if _, err := p.dst.WriteAt(p.buf[:k], from); err != nil {
				return err
			}
		}
		if from += int64(k); p.ctx.Err() != nil {
			return p.ctx.Err()
		}
	}
	return nil
}

// digestOf reads the regular file name of dir and returns its digest. want is how
// it was seen before: if it is another or a changed file by now, errMoving.
func digestOf(ctx context.Context, dir *safefs.Dir, name string, want *Node) (Digest, error) {
	f, st, err := openFile(dir, name)
	if err != nil {
		return Digest{}, err
	}
	defer f.Close()
	now := fromStat(want.Path, st, st.Dev)
	now.Mount = want.Mount
	if !sameStamp(&now, want) {
		return Digest{}, errMoving
	}
	return pour(ctx, nil, f, st)
}

// gone reports whether err says that a file is not any more what it was when it
// was looked at.
func gone(err error) bool {
	return errors.Is(err, errMoving) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, safefs.ErrNotRegular) || errors.Is(err, unix.ELOOP)
}
