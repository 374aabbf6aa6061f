package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// trusted is one entry of a trust store: which file was looked at by a person.
type trusted struct {
	Dir    string    `json:"dir"`
	Dev    uint64    `json:"dev"`
	Ino    uint64    `json:"ino"`
	Digest string    `json:"digest"`
	Since  time.Time `json:"since"`
}

// maxStore bounds a trust store, in bytes.
const maxStore = 4 << 20

// Trust records in the file store that p may speak for its project. The file is made
// with mode 0600, below a directory that exists and is the caller's own. Two writers
// at once lose one entry, nothing else.
func Trust(store string, p *ProjectDoc) error {
	all, err := readStore(store)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(t trusted) bool { return t.Dir == p.Dir })
	all = append(all, trusted{Dir: p.Dir, Dev: p.Dev, Ino: p.Ino, Digest: p.Digest, Since: time.Now().UTC().Truncate(time.Second)})
	slices.SortFunc(all, func(a, b trusted) int { return strings.Compare(a.Dir, b.Dir) })
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("write the trust store: %w", err)
	}
	if err := renameio.WriteFile(store, append(data, '\n'), 0o600, renameio.WithStaticPermissions(0o600)); err != nil {
		return fmt.Errorf("write the trust store: %w", err)
	}
	return nil
}

// Trusted tells whether p is exactly what was trusted. When not, why says what is
// different and what to do.
func Trusted(store string, p *ProjectDoc) (ok bool, why string, err error) {
	all, err := readStore(store)
	if err != nil {
		return false, "", err
	}
	i := slices.IndexFunc(all, func(t trusted) bool { return t.Dir == p.Dir })
	then := fmt.Sprintf("look at it, then run: sbxd trust %s", p.Dir)
	switch {
	case i < 0:
		return false, fmt.Sprintf("%s is ignored: it is not trusted yet; %s", p.File(), then), nil
	case all[i].Dev != p.Dev || all[i].Ino != p.Ino:
		return false, fmt.Sprintf("%s is ignored: %s is another directory than the trusted one; %s", p.File(), p.Dir, then), nil
	case all[i].Digest != p.Digest:
		return false, fmt.Sprintf("%s is ignored: it was changed after it was trusted; %s", p.File(), then), nil
	}
	return true, "", nil
}

// readStore reads a trust store. One that others could have written is refused.
func readStore(store string) ([]trusted, error) {
	fail := func(err error) error { return fmt.Errorf("read the trust store %s: %w", store, err) }
	f, err := os.OpenFile(filepath.Clean(store), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fail(errors.Unwrap(err))
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fail(err)
	}
	sys, _ := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.Mode().IsRegular(), st.Size() > maxStore:
		return nil, fail(errors.New("it is no regular file of a sane size"))
	case sys.Uid != 0 && int(sys.Uid) != os.Geteuid(), st.Mode().Perm()&0o022 != 0:
		return nil, fail(errors.New("other users may write it; remove it and trust again"))
	}
	var all []trusted
	dec := json.NewDecoder(f)
	if err := dec.Decode(&all); err != nil {
		return nil, fail(fmt.Errorf("%w; remove it and trust again", err))
	}
	return all, nil
}
