package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxRecord bounds session.json: a record with every list at its limit is far below.
const maxRecord = 1 << 20

// readOwn reads one of our own small files: regular, through no link, bounded.
func readOwn(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("it is missing")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxRecord {
		return nil, fmt.Errorf("it is longer than %d bytes", maxRecord)
	}
	return b, nil
}

// decodeRecord reads a record of the directory id. A record of another format is
// refused by name: there is no older one yet, and a newer one may say what this
// program would lose.
func decodeRecord(b []byte, id ID) (Record, error) {
	if len(b) == 0 {
		return Record{}, errors.New("it is empty")
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return Record{}, fmt.Errorf("decoding it: %w", err)
	}
	switch {
	case head.Format == 0:
		return Record{}, errors.New("it names no format")
	case head.Format != Format:
		return Record{}, fmt.Errorf("it has format %d and this sbxd reads format %d; use the sbxd that wrote it", head.Format, Format)
	}
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("decoding it: %w", err)
	}
	return r, r.check(id)
}

// check tells what makes a decoded record unusable.
func (r *Record) check(id ID) error {
	switch {
	case r.ID != id:
		return fmt.Errorf("it names session %.40q", string(r.ID))
	case !r.State.Known():
		return fmt.Errorf("it names the state %.40q", string(r.State))
	case r.Parent != "" && !isID(string(r.Parent)):
		return errors.New("its parent is no session id")
	case r.UID < 0 || r.GID < 0:
		return errors.New("its uid or gid is negative")
	case r.Project.Real == "" || r.Home.Real == "":
		return errors.New("it names no project or no home")
	}
	if r.Name != "" {
		if err := CheckName(r.Name); err != nil {
			return err
		}
	}
	return CheckLabels(r.Labels)
}
