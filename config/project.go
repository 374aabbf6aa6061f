package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sbxd/sbxd/internal/hostpath"
	"github.com/sbxd/sbxd/internal/safefs"
)

// ProjectFile is the name of a project's own file, in its top directory.
const ProjectFile = ".sbxd.toml"

// maxProjectFile bounds it, in bytes.
const maxProjectFile = 64 << 10

// Project is what a project's own file can say. It can only tighten: every value
// takes something away from a session.
type Project struct {
	// Masks are hidden; a path may be relative to the project.
	Masks []Path `toml:"masks"`
	// ReadOnly are paths inside the project that a session sees but cannot change.
	ReadOnly []Path         `toml:"read_only"`
	Network  ProjectNetwork `toml:"network"`
}

// ProjectNetwork is what a project says of the network.
type ProjectNetwork struct {
	// Default can only be "off", and then no session of the project has a network.
	Default string `toml:"default"`
}

// ProjectDoc is a project's file as it was read once.
type ProjectDoc struct {
	Dir      string // canonical directory of the project
	Dev, Ino uint64 // its identity
	Digest   string // of the file's bytes, SHA-256 in hexadecimal
	data     []byte
	home     string
}

// ReadProject reads the file of the project in dir, which is canonical, with the
// rights of the calling process. It returns nil when there is none. The content is
// not judged before Decode, so that an untrusted file cannot stop a start.
func ReadProject(dir, home string) (*ProjectDoc, error) {
	d, err := safefs.OpenReal(dir)
	if err != nil {
		return nil, fmt.Errorf("open the project: %w", err)
	}
	defer d.Close()
	data, err := d.ReadRegular(ProjectFile, maxProjectFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Fault{File: filepath.Join(dir, ProjectFile), Message: fmt.Sprintf("has to be a regular file with one link and at most %d bytes: %v", maxProjectFile, err)}
	}
	st, err := safefs.StatFD(d.Fd())
	if err != nil {
		return nil, fmt.Errorf("look at the project: %w", err)
	}
	sum := sha256.Sum256(data)
	return &ProjectDoc{Dir: dir, Dev: st.Dev, Ino: st.Ino, Digest: hex.EncodeToString(sum[:]), data: data, home: home}, nil
}

// File is the path of the file.
func (p *ProjectDoc) File() string { return filepath.Join(p.Dir, ProjectFile) }

// Decode reads the content strictly. Every path comes back absolute.
func (p *ProjectDoc) Decode() (Project, error) {
	var c Project
	d, err := decode(p.File(), p.data, &c)
	if err != nil {
		return Project{}, err
	}
	var errs []error
	base := hostpath.Base{Home: p.home, Project: p.Dir}
	for key, list := range map[string][]Path{"masks": c.Masks, "read_only": c.ReadOnly} {
		for i := range list {
			at := elem(key, i)
			spec, err := hostpath.Parse(list[i].Text, base)
			pattern := key == "masks" && errors.Is(err, hostpath.ErrPattern)
			if pattern {
				_, err = hostpath.ParsePattern(list[i].Text, base)
			}
			switch {
			case err == nil && pattern: // it is read again as it is
				list[i].From = d.origin(at)
				continue
			case err != nil:
				errs = append(errs, d.fault(at, "%v", err))
				continue
			case key == "read_only" && !hostpath.Below(spec.Path, p.Dir):
				errs = append(errs, d.fault(at, "%.200q is not inside the project; a project's file can only tighten", list[i].Text))
			}
			list[i] = Path{Text: escape(spec.Path), From: d.origin(at)}
			if spec.Dir {
				list[i].Text += "/"
			}
		}
	}
	if d.has("network.default") && c.Network.Default != "off" {
		errs = append(errs, d.fault("network.default", `is %.40q; a project's file can only say "off"`, c.Network.Default))
	}
	return c, errors.Join(errs...)
}

// escape writes an absolute path so that it is read back as it is.
func escape(path string) string {
	var b []byte
	for i := range len(path) {
		switch path[i] {
		case '*', '?', '[', ']', '{', '}':
			b = append(b, '\\')
		}
		b = append(b, path[i])
	}
	return string(b)
}
