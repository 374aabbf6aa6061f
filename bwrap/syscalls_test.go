package bwrap

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/landlock"
)

// trySyscalls makes each call that the filter refuses, with arguments that do nothing
// where the call is allowed.
func trySyscalls(res results, _ []string) error {
	raw := func(name string, nr uintptr, args ...uintptr) {
		a := [6]uintptr{}
		copy(a[:], args)
		_, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 {
			res[name] = unix.ErrnoName(errno)
		} else {
			res[name] = "ok"
		}
	}
	m := machines[runtime.GOARCH]
	for _, d := range deniedCalls {
		if nr := m.nr(d); nr >= 0 {
			const bad = ^uintptr(0) // a descriptor, pointer or size that no call accepts
			raw(d.name, uintptr(nr), bad, bad, bad, bad, bad, bad)
		}
	}
	raw("TIOCSTI", unix.SYS_IOCTL, 0, unix.TIOCSTI, 0)
	raw("TIOCSTI high", unix.SYS_IOCTL, 0, aboveLow|unix.TIOCSTI, 0)
	raw("TIOCLINUX", unix.SYS_IOCTL, 0, unix.TIOCLINUX, 0)
	for name, family := range map[string]uintptr{
		"unix": unix.AF_UNIX, "inet": unix.AF_INET, "inet6": unix.AF_INET6, "netlink": unix.AF_NETLINK,
		"vsock": unix.AF_VSOCK, "alg": unix.AF_ALG, "packet": unix.AF_PACKET, "bluetooth": unix.AF_BLUETOOTH,
		"vsock high": aboveLow | unix.AF_VSOCK,
	} {
		raw("socket "+name, unix.SYS_SOCKET, family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	}
	if m.x32 {
		raw("x32 getpid", x32Bit|39)
		raw("x32 unshare", x32Bit|272, unix.CLONE_NEWUSER)
		raw("x32 ioctl", x32Bit|514, 0, unix.TIOCSTI, 0)
	}
	cmd := exec.Command("/proc/self/exe", "stage", "int80")
	out, err := cmd.Output()
	res.add("int80", err)
	res["int80 output"] = string(out)
	return nil
}

// tryInt80 makes a system call by the 32-bit interface from 64-bit code:
//
//	mov edx, edi   ; third argument
//	int 0x80
//	ret
//
// Go passes the first four words of arguments in rax, rbx, rcx and rdi, and takes the
// result from rax: the registers of that interface but for the third argument's.
func tryInt80(_ results, _ []string) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("there is no int 0x80 here")
	}
	code, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	copy(code, []byte{0x89, 0xfa, 0xcd, 0x80, 0xc3})
	entry := &code[0]
	fn := &entry
	call := *(*func(nr, a, b, c uintptr) int32)(unsafe.Pointer(&fn))
	const (
		getpid  = 20
		unshare = 310
		socket  = 359
	)
	fmt.Println("getpid", call(getpid, 0, 0, 0))
	fmt.Println("unshare", call(unshare, unix.CLONE_NEWNS, 0, 0))
	fmt.Println("vsock", call(socket, unix.AF_VSOCK, unix.SOCK_STREAM, 0))
	return nil
}

func TestSyscallsAreRefused(t *testing.T) {
	want := map[string]string{
		"TIOCSTI": "EPERM", "TIOCSTI high": "EPERM", "TIOCLINUX": "EPERM",
		"socket unix": "ok", "socket inet": "ok", "socket inet6": "ok",
		"socket vsock": "EAFNOSUPPORT", "socket vsock high": "EAFNOSUPPORT", "socket alg": "EAFNOSUPPORT",
		"socket packet": "EAFNOSUPPORT", "socket bluetooth": "EAFNOSUPPORT",
	}
	if runtime.GOARCH == "amd64" {
		want["x32 getpid"], want["x32 unshare"], want["x32 ioctl"] = "ENOSYS", "ENOSYS", "ENOSYS"
		want["int80"], want["int80 output"] = "signal: bad system call", ""
	}
	for _, d := range deniedCalls {
		if machines[runtime.GOARCH].nr(d) >= 0 {
			want[d.name] = unix.ErrnoName(d.errno)
		}
	}
	got := inside(t, scene{Guest: []string{"syscalls"}})
	expect(t, got, want)
	if n := got["socket netlink"]; n != "ok" && n != "EPROTONOSUPPORT" && n != "ESOCKTNOSUPPORT" {
		t.Errorf("a netlink socket: %s", n)
	}
}

// Without the filter the same probes get through: the ones above prove something.
func TestSyscallProbesReachTheKernelWithoutTheFilter(t *testing.T) {
	got := inside(t, scene{NoSeccomp: true, Guest: []string{"syscalls"}})
	for _, name := range []string{"keyctl", "bpf", "io_uring_setup", "perf_event_open", "clone3", "TIOCSTI high"} {
		if g := got[name]; g == "EPERM" && name != "bpf" || g == "ENOSYS" {
			t.Errorf("%s: %s without a filter", name, g)
		}
	}
	if runtime.GOARCH == "amd64" && got["int80"] != "ok" {
		t.Logf("this kernel has no 32-bit interface: %s", got["int80"])
	}
	t.Logf("int 0x80 without a filter:\n%s", got["int80 output"])
}

// tryPrograms runs what agents run, each below a directory of its own.
func tryPrograms(res results, _ []string) error {
	for _, line := range programs {
		name, script, _ := strings.Cut(line, ": ")
		if _, err := exec.LookPath("/usr/bin/" + name); err != nil {
			continue
		}
		dir, err := os.MkdirTemp("/tmp", "")
		if err != nil {
			return err
		}
		cmd := exec.Command("/bin/sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		res.add(name, err)
	}
	return nil
}

var programs = []string{
	"git: git init -q . && echo a >a && git add a && git -c user.name=u -c user.email=e commit -qm m && git gc -q && git fsck",
	"strace: strace -f -o out sh -c true && grep -q execve out",
	"gdb: gdb -nx -batch -ex run /bin/true | grep -q 'exited normally'",
	`node: node -e 'require("child_process").execSync("true"); new (require("worker_threads").Worker)("1", {eval: true})'`,
	"python3: /usr/bin/python3 -c 'import multiprocessing as m; assert m.Pool(2).map(abs, [-1, -2]) == [1, 2]'",
	"perl: perl -e 'pipe(R, W); if (fork) { wait } else { exec \"true\" }'",
}

func TestProgramsWorkUnderTheFilter(t *testing.T) {
	got := inside(t, scene{Guest: []string{"programs"}, Landlock: landlock.ABI() >= landlock.MinABI})
	for name, result := range got {
		if result != "ok" {
			t.Errorf("%s: %s", name, result)
		}
	}
	if len(got) == 0 {
		t.Skip("needs one of git, strace, gdb, node, python3, perl")
	}
	t.Logf("ran %d programs", len(got))
}
