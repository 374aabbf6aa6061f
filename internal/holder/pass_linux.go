package holder

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// maxFiles is more than anybody sends at once: a socket and two layers.
const maxFiles = 8

// sendFiles sends descriptors ahead of a message.
func sendFiles(conn *net.UnixConn, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := conn.WriteMsgUnix([]byte{byte(len(fds))}, oob, nil); err != nil {
		return fmt.Errorf("hand descriptors over: %w", err)
	}
	return nil
}

// receiveFiles is the other half of sendFiles. io.EOF: there was nothing to come.
func receiveFiles(conn *net.UnixConn) ([]*os.File, error) {
	count := make([]byte, 1)
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, _, _, err := conn.ReadMsgUnix(count, oob)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	var files []*os.File
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	for _, m := range msgs {
		var fds []int
		if fds, err = unix.ParseUnixRights(&m); err != nil {
			break
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	if err == nil && len(files) != int(count[0]) {
		err = errors.New("other descriptors came than were announced")
	}
	return files, err
}

// ConnOf makes a connection of an inherited descriptor.
func ConnOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("descriptor %d is no unix socket", fd)
	}
	return u, nil
}
