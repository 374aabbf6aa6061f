package session

import (
	"fmt"
	"strings"
)

// DirID identifies a directory while its file system is mounted.
type DirID struct{ Dev, Ino uint64 }

// Label is what a mount table shows of a session's view in its first column: whose it is,
// in words that no other state root can have. Only processes of the session and those
// with the same user's rights could forge one, for mounts of their own.
type Label struct {
	ID ID
	In DirID // the directory of sessions that holds ID's data
}

const labelPrefix = "sbxd:"

func (l Label) String() string {
	return fmt.Sprintf("%s%s:%d:%d", labelPrefix, l.ID, l.In.Dev, l.In.Ino)
}

// ParseLabel is the inverse of String; the zero Label for any other text.
func ParseLabel(s string) Label {
	rest, ok := strings.CutPrefix(s, labelPrefix)
	name, nums, ok2 := strings.Cut(rest, ":")
	id, err := ParseID(name)
	l := Label{ID: id}
	if !ok || !ok2 || err != nil {
		return Label{}
	}
	if _, err := fmt.Sscanf(nums, "%d:%d", &l.In.Dev, &l.In.Ino); err != nil || l.String() != s {
		return Label{}
	}
	return l
}
