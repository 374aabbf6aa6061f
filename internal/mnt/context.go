package mnt

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Context is a file system being configured (fsopen(2)). Set what it needs,
// Mount it once, Close it in any case.
type Context struct {
	fd   int
	name string
}

// maxDetail bounds the kernel's explanation that an Error carries, in bytes.
const maxDetail = 1024

// Open starts the configuration of a new instance of the file system fstype.
func Open(fstype string) (*Context, error) {
	fd, err := retry(func() (int, error) { return unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC) })
	if err != nil {
		return nil, &Error{Op: "open file system", Source: fstype, Err: err}
	}
	return &Context{fd: fd, name: fstype}, nil
}

// Set gives a key its string value.
func (c *Context) Set(key, value string) error {
	return c.do("set "+key, unix.FsconfigSetString(c.fd, key, value))
}

// SetFlag sets a key that has no value.
func (c *Context) SetFlag(key string) error {
	return c.do("set "+key, unix.FsconfigSetFlag(c.fd, key))
}

// SetFD gives a key a descriptor. Overlayfs takes its layers this way since
// Linux 6.13, O_PATH descriptors later still; EINVAL or EBADF before.
func (c *Context) SetFD(key string, fd int) error {
	return c.do("set "+key, unix.FsconfigSetFd(c.fd, key, fd))
}

// Mount creates the instance and returns its detached mount with the attributes
// unix.MOUNT_ATTR_*.
func (c *Context) Mount(attrs int) (int, error) {
	if err := c.do("create", unix.FsconfigCreate(c.fd)); err != nil {
		return -1, err
	}
	fd, err := retry(func() (int, error) { return unix.Fsmount(c.fd, unix.FSMOUNT_CLOEXEC, attrs) })
	if err != nil {
		return -1, c.do("mount", err)
	}
	return fd, nil
}

// Close ends the configuration; a mount that Mount returned stays.
func (c *Context) Close() error { return unix.Close(c.fd) }

func (c *Context) do(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Source: c.name, Detail: c.detail(), Err: err}
}

// detail drains the messages that the kernel left in the context: "e overlay:
// …" for errors. ENODATA ends them.
func (c *Context) detail() string {
	var out []string
	buf := make([]byte, maxDetail)
	for len(out) < 8 {
		n, err := unix.Read(c.fd, buf)
		if err != nil || n <= 0 {
			break
		}
		out = append(out, strings.TrimSpace(strings.TrimPrefix(string(buf[:n]), "e ")))
	}
	return strings.Join(out, "; ")
}
