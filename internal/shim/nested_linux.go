package shim

import (
	"sort"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/masks"
)

// readMounts reads the mount table once; nothing is ever looked at by path for it.
func readMounts() ([]*mountinfo.Info, error) { return mountinfo.GetMounts(nil) }

// below returns the mounts strictly below dir, outermost first, one a mountpoint: a
// later line covers an earlier one.
func below(table []*mountinfo.Info, dir string) []*mountinfo.Info {
	last := map[string]*mountinfo.Info{}
	for _, m := range table {
		if m.Mountpoint != dir && masks.Within(m.Mountpoint, dir) {
			last[m.Mountpoint] = m
		}
	}
	found := make([]*mountinfo.Info, 0, len(last))
	for _, m := range last {
		found = append(found, m)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Mountpoint < found[j].Mountpoint })
	return found
}

// nestedOf decides what a session sees of the host's mounts below its views: local
// file systems read-only, the rest not at all. The top mounts only: a clone brings
// what lies below. A view's own directory is no nested mount of another.
func nestedOf(table []*mountinfo.Info, views []holder.View) []holder.Nested {
	var out []holder.Nested
	for i, v := range views {
		for _, m := range below(table, v.Path) {
			if insideAny(m.Mountpoint, views[i+1:]) || coveredBy(m.Mountpoint, out) {
				continue
			}
			out = append(out, holder.Nested{Path: m.Mountpoint, Hide: !local(m.FSType)})
		}
	}
	return out
}

func insideAny(path string, views []holder.View) bool {
	for _, v := range views {
		if masks.Within(path, v.Path) {
			return true
		}
	}
	return false
}

func coveredBy(path string, seen []holder.Nested) bool {
	for _, n := range seen {
		if masks.Within(path, n.Path) {
			return true
		}
	}
	return false
}

// local reports whether a file system answers without asking another machine or
// process, so that a session never hangs on it.
func local(fstype string) bool {
	switch fstype {
	case "ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "zfs", "tmpfs", "ramfs",
		"overlay", "vfat", "exfat", "ntfs3", "iso9660", "squashfs", "erofs", "udf":
		return true
	}
	return strings.HasPrefix(fstype, "reiserfs")
}
