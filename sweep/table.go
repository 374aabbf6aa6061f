package sweep

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/sbxd/sbxd/session"
)

// maxLine bounds a line of a mount table, in bytes. Both paths of a line together
// take at most 33 KiB, escaped; only the options at its end, which a process in a
// namespace of its own can make megabytes long, are cut off.
const maxLine = 60 << 10

// guestPoints are where a session's namespace shows our own program: once the tree
// is bound by bwrap, and before. The payload cannot mount there.
var guestPoints = []string{"/run/sbxbin/sbxd", "/tmp/root/run/sbxbin/sbxd"}

// parseTable reads a mount table in the form of /proc/PID/mountinfo. Lines that cannot
// be read are left out, and partial is set; they do not spoil the rest.
func parseTable(r io.Reader) (mounts []Mount, partial bool, err error) {
	text, cut, err := readLines(r)
	if err != nil {
		return nil, false, err
	}
	infos, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	if err == nil {
		return convert(infos), cut, nil
	}
	for line := range bytes.Lines(text) {
		one, err := mountinfo.GetMountsFromReader(bytes.NewReader(line), nil)
		if err != nil {
			partial = true
			continue
		}
		mounts = append(mounts, convert(one)...)
	}
	return mounts, partial || cut, nil
}

func convert(infos []*mountinfo.Info) []Mount {
	out := make([]Mount, 0, len(infos))
	for _, i := range infos {
		out = append(out, Mount{
			Point: i.Mountpoint, Root: i.Root, Major: i.Major, Minor: i.Minor,
			FSType: i.FSType, Layers: layers(i), Label: label(i),
		})
	}
	return out
}

// label reads the label of a session's view, of either backend.
func label(i *mountinfo.Info) session.Label {
	if i.FSType != "overlay" && i.FSType != "fuse" && !strings.HasPrefix(i.FSType, "fuse.") {
		return session.Label{}
	}
	return session.ParseLabel(i.Source)
}

// layers reads the directories of an overlay from its options. The kernel names them
// as they were given, or by path where they were given as descriptors (Linux 6.13).
func layers(i *mountinfo.Info) []string {
	if i.FSType != "overlay" {
		return nil
	}
	var out []string
	for opt := range strings.SplitSeq(i.VFSOptions, ",") {
		switch key, value, _ := strings.Cut(opt, "="); key {
		case "upperdir", "workdir", "lowerdir+", "datadir+":
			out = append(out, unescape(value))
		case "lowerdir":
			out = append(out, strings.Split(unescape(value), ":")...)
		}
	}
	return out
}

// unescape undoes the octal escapes of options, which mountinfo leaves in.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// readLines reads everything with the ends of overlong lines cut off. cut reports
// that a line lost more than its options.
func readLines(r io.Reader) (text []byte, cut bool, err error) {
	var out bytes.Buffer
	br := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := br.ReadSlice('\n')
		out.Write(line)
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return out.Bytes(), cut, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
		cut = cut || !bytes.Contains(line, []byte(" - "))
		out.WriteByte('\n')
		if err := skipLine(br); err != nil {
			return out.Bytes(), cut, ignoreEOF(err)
		}
	}
}

func skipLine(br *bufio.Reader) error {
	for {
		_, err := br.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// deleted is what the kernel puts behind a path whose last name was removed. No path
// has an empty component of its own, so it is never part of a name.
const deleted = "//deleted"

// rel returns the part of path below dir, by whole components; ok is false when path
// is dir itself, or elsewhere. The kernel's mark of a removed path does not count.
func rel(dir, path string) (string, bool) {
	path = strings.TrimSuffix(path, deleted)
	if dir == "/" {
		return strings.CutPrefix(path, "/")
	}
	rest, ok := strings.CutPrefix(path, dir)
	if !ok || len(rest) < 2 || rest[0] != '/' {
		return "", false
	}
	return rest[1:], true
}

// first returns the first component of a relative path.
func first(path string) string {
	name, _, _ := strings.Cut(path, "/")
	return name
}

// isOurs reports whether the namespace is that of a session of this program.
func (n Namespace) isOurs() bool {
	return slices.ContainsFunc(n.Mounts, func(m Mount) bool {
		return m.Label.ID != "" || slices.Contains(guestPoints, m.Point)
	})
}
