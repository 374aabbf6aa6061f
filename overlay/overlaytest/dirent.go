package overlaytest

import (
	"bytes"
	"encoding/binary"
)

type dirent struct {
	name string
	ino  uint64
}

// direntInodes reads struct linux_dirent64.
func direntInodes(b []byte) []dirent {
	var out []dirent
	for len(b) > 19 {
		n := int(binary.NativeEndian.Uint16(b[16:]))
		if n < 19 || n > len(b) {
			break
		}
		name, _, _ := bytes.Cut(b[19:n], []byte{0})
		out = append(out, dirent{string(name), binary.NativeEndian.Uint64(b)})
		b = b[n:]
	}
	return out
}
