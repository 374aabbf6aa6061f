package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// trySyscalls makes the calls of facts that a filter has to stop.
func trySyscalls(r results, _ []string) error {
	raw := func(name string, nr uintptr, args ...uintptr) {
		a := [6]uintptr{}
		copy(a[:], args)
		_, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 {
			r.note(name, errno)
			return
		}
		r.note(name, nil)
	}
	const high = 1 << 32
	raw("TIOCSTI", unix.SYS_IOCTL, 0, unix.TIOCSTI, 0)
	raw("TIOCSTI with high bits", unix.SYS_IOCTL, 0, high|unix.TIOCSTI, 0)
	raw("TIOCLINUX", unix.SYS_IOCTL, 0, unix.TIOCLINUX, 0)
	var params [120]byte
	raw("io_uring_setup", unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)))
	raw("keyctl", unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, 0, 0)
	raw("bpf", unix.SYS_BPF, 0, 0, 0)
	raw("userfaultfd", unix.SYS_USERFAULTFD, unix.O_CLOEXEC)
	raw("perf_event_open", unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, ^uintptr(0), 0)
	for name, family := range map[string]uintptr{"vsock": unix.AF_VSOCK, "vsock with high bits": high | unix.AF_VSOCK, "alg": unix.AF_ALG, "packet": unix.AF_PACKET, "bluetooth": unix.AF_BLUETOOTH, "xdp": unix.AF_XDP} {
		raw("socket "+name, unix.SYS_SOCKET, family, unix.SOCK_STREAM, 0)
	}
	raw("raw socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	raw("x32 getpid", 0x4000_0000|39)
	raw("x32 unshare", 0x4000_0000|272, unix.CLONE_NEWUSER)
	raw("mknod device", unix.SYS_MKNODAT, 0xffffffffffffff9c, uintptr(unsafe.Pointer(&[]byte("/tmp/d\x00")[0])), unix.S_IFCHR|0o666, 0x103)
	raw("whiteout", unix.SYS_MKNODAT, 0xffffffffffffff9c, uintptr(unsafe.Pointer(&[]byte("whiteout\x00")[0])), unix.S_IFCHR|0o666, 0)
	cmd := exec.Command("/proc/self/exe", "attack", "int80")
	err := cmd.Run()
	r.note("int 0x80", err)
	return nil
}

// tryInt80 calls the 32-bit interface from 64-bit code:
//
//	mov edx, edi   ; third argument
//	int 0x80
//	ret
//
// Go passes the first four words of arguments in rax, rbx, rcx and rdi, and takes the
// result from rax.
func tryInt80(r results, _ []string) error {
	code, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	copy(code, []byte{0x89, 0xfa, 0xcd, 0x80, 0xc3})
	entry := &code[0]
	fn := &entry
	call := *(*func(nr, a, b, c uintptr) int32)(unsafe.Pointer(&fn))
	const unshare = 310
	r["unshare"] = fmt.Sprint(call(unshare, unix.CLONE_NEWUSER, 0, 0))
	return nil
}

// TestEscapeBySystemCalls makes, in a real session, the calls that its filter is for.
func TestEscapeBySystemCalls(t *testing.T) {
	t.Parallel()
	needLayers(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64: the numbers are of that architecture")
	}
	b := served(t)
	i := b.intrude(t)
	want := map[string]string{
		"TIOCSTI": "EPERM", "TIOCSTI with high bits": "EPERM", "TIOCLINUX": "EPERM",
		"io_uring_setup": "EPERM", "keyctl": "EPERM", "bpf": "EPERM", "userfaultfd": "EPERM", "perf_event_open": "EPERM",
		"socket vsock": "EAFNOSUPPORT", "socket vsock with high bits": "EAFNOSUPPORT", "socket alg": "EAFNOSUPPORT",
		"socket packet": "EAFNOSUPPORT", "socket bluetooth": "EAFNOSUPPORT", "socket xdp": "EAFNOSUPPORT", "raw socket": "EPERM|EACCES",
		"x32 getpid": "ENOSYS", "x32 unshare": "ENOSYS", "int 0x80": "signal: bad system call",
		"mknod device": "EPERM", "whiteout": "EPERM",
	}
	expect(t, i.try("syscalls"), want)

	t.Run("ordinary programs do not notice", func(t *testing.T) {
		i.sh(`git init -q g && cd g && echo a >a && git add a && git -c user.name=u -c user.email=e commit -qm m && git gc -q && git fsck 2>&1
			if [ -x /usr/bin/python3 ]; then /usr/bin/python3 -c 'import multiprocessing as m; assert m.Pool(2).map(abs, [-1, -2]) == [1, 2]'; fi
			if [ -x /usr/bin/strace ]; then /usr/bin/strace -f -o /tmp/out true && grep -q execve /tmp/out; fi`)
	})
	t.Run("without the filter the same calls get through", func(t *testing.T) {
		if !tagged("sbxdtest") {
			t.Skip("needs a test binary with the tag sbxdtest")
		}
		got := b.without(t, "seccomp").intrude(t).try("syscalls")
		for _, name := range []string{"TIOCSTI with high bits", "io_uring_setup", "keyctl", "perf_event_open", "int 0x80"} {
			if got[name] == want[name] {
				t.Errorf("%s: %s without the filter too, so the test above shows nothing", name, got[name])
			}
		}
	})
}
