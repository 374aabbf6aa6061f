package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxd/sbxd/bwrap"
	"github.com/sbxd/sbxd/internal/scratch"
	"github.com/sbxd/sbxd/overlay"
	"github.com/sbxd/sbxd/overlay/kernel"
	"github.com/sbxd/sbxd/overlay/unionfs"
)

func bubblewrap(ctx context.Context, o Options) Check {
	program, err := bwrap.Find(o.Bwrap)
	if err != nil {
		return judgeBwrap(bwrap.Findings{}, err)
	}
	dir, err := scratch.Make()
	if err != nil {
		return missing("bwrap", err.Error(), "let this user write to "+scratch.Place).needed()
	}
	defer func() { _ = dir.Remove() }()
	return judgeBwrap(bwrap.Probe(ctx, program, dir.Path))
}

func judgeBwrap(f bwrap.Findings, err error) Check {
	const name = "bwrap"
	var pe *bwrap.ProbeError
	if errors.As(err, &pe) {
		detail := string(pe.Reason)
		if pe.Detail != "" {
			detail += " (" + pe.Detail + ")"
		}
		return missing(name, pe.Program+": "+detail, pe.Remedy).needed()
	}
	if err != nil {
		return missing(name, err.Error(), "run bwrap --unshare-all --ro-bind / / true by hand").needed()
	}
	var weak []string
	if !f.DisableUserns {
		weak = append(weak, "it cannot forbid user namespaces inside")
	}
	if !f.Size {
		weak = append(weak, "it cannot bound a tmpfs")
	}
	if f.CreatesThroughLinks {
		weak = append(weak, "it creates files through links of the sandbox (CVE-2026-87766), which sessions are not exposed to and other users of it are")
	}
	detail := f.Version + " at " + f.Program
	if len(weak) > 0 {
		return degraded(name, detail+": "+strings.Join(weak, "; "), "install a newer bubblewrap (0.12 or later, or your distribution's security update)").needed()
	}
	return ok(name, detail).needed()
}

// overlayfs tries a view where the state root is or will be.
func overlayfs(o Options) Check {
	dir, err := existing(o.State)
	if err == nil {
		err = kernel.Backend{}.Probe(dir)
	}
	return judgeOverlay(dir, err)
}

func judgeOverlay(dir string, err error) Check {
	const name = "overlay"
	if err == nil {
		return ok(name, "works in a user namespace, with its layers below "+dir).needed()
	}
	remedy := "put the state root (SBXD_STATE) on ext4, xfs or btrfs"
	var pe *overlay.ProbeError
	if errors.As(err, &pe) {
		if pe.Remedy != "" {
			remedy = pe.Remedy
		}
		err = fmt.Errorf("%s: %w", pe.Step, pe.Err)
	}
	return missing(name, err.Error(), remedy).needed()
}

// ownUnion tries a view of our own where the state root is or will be. Most sessions do
// without one.
func ownUnion(o Options) Check {
	dir, err := existing(o.State)
	if err == nil {
		err = unionfs.Probe(dir)
	}
	return judgeUnion(dir, err)
}

func judgeUnion(dir string, err error) Check {
	const name = "unionfs"
	if err == nil {
		return ok(name, "works in a user namespace, with its layers below "+dir)
	}
	remedy := "see overlay"
	var pe *overlay.ProbeError
	if errors.As(err, &pe) {
		remedy, err = pe.Remedy, fmt.Errorf("%s: %w", pe.Step, pe.Err)
	}
	return missing(name, err.Error()+"; masks by pattern and bounds of a session's changes are refused", remedy)
}

// existing returns path, or the nearest directory above it that is there.
func existing(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("the state root %q is not an absolute path", path)
	}
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		switch fi, err := os.Stat(p); {
		case err == nil && fi.IsDir():
			return p, nil
		case err == nil:
			return "", fmt.Errorf("%s is not a directory", p)
		case !errors.Is(err, os.ErrNotExist) || p == "/":
			return "", err
		}
	}
}
