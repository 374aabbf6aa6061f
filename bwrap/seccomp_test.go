package bwrap

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); `go test -update` rewrites it:\n%s", file, diff)
	}
}

func TestSeccompListing(t *testing.T) {
	for arch := range machines {
		steps, err := assemble(arch)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := Seccomp(arch)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i, r := range raw {
			ins, note := fmt.Sprint(r.Disassemble()), steps[i].note
			if ret, ok := steps[i].ins.(bpf.RetConstant); ok {
				ins = "ret " + action(ret.Val)
			}
			if note != "" {
				ins = fmt.Sprintf("%-28s; %s", ins, note)
			}
			fmt.Fprintf(&b, "%03d  %04x %3d %3d %08x  %s\n", i, r.Op, r.Jt, r.Jf, r.K, ins)
		}
		golden(t, "seccomp_"+arch+".golden", b.String())
	}
}

func TestSeccompRefusesAnUnknownArchitecture(t *testing.T) {
	for _, arch := range []string{"", "386", "riscv64"} {
		if _, err := Seccomp(arch); err == nil {
			t.Errorf("Seccomp(%q) gave a program, want an error", arch)
		}
	}
}

// call is a system call as the kernel shows it to a filter.
type call struct {
	arch uint32
	nr   int
	args [6]uint64
}

// data packs a call for the interpreter, which reads words in network order where the
// kernel reads them as they are: each 32-bit half is turned by itself.
func (c call) data() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(c.nr))
	b = binary.BigEndian.AppendUint32(b, c.arch)
	b = append(b, make([]byte, 8)...) // instruction pointer
	for _, a := range c.args {
		b = binary.BigEndian.AppendUint32(b, uint32(a))
		b = binary.BigEndian.AppendUint32(b, uint32(a>>32))
	}
	return b
}

// verdict runs the assembled program, as encoded, on a call.
func verdict(t *testing.T, arch string, c call) string {
	t.Helper()
	raw, err := Seccomp(arch)
	if err != nil {
		t.Fatal(err)
	}
	list, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program does not disassemble")
	}
	vm, err := bpf.NewVM(list)
	if err != nil {
		t.Fatal(err)
	}
	got, err := vm.Run(c.data())
	if err != nil {
		t.Fatal(err)
	}
	return action(uint32(got))
}

// action names what a program returns.
func action(ret uint32) string {
	switch ret & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW:
		return "allow"
	case unix.SECCOMP_RET_KILL_PROCESS:
		return "kill"
	case unix.SECCOMP_RET_ERRNO:
		return unix.ErrnoName(unix.Errno(ret & unix.SECCOMP_RET_DATA))
	}
	return fmt.Sprintf("%#x", ret)
}

const aboveLow = 1 << 32 // a bit that the kernel ignores in an int

func TestSeccompVerdicts(t *testing.T) {
	for arch, m := range machines {
		own := func(d denied, args ...uint64) call {
			c := call{arch: m.audit, nr: m.nr(d)}
			copy(c.args[:], args)
			return c
		}
		for _, tc := range []struct {
			name string
			call call
			want string
		}{
			{"fork", own(callClone, uint64(unix.SIGCHLD)), "allow"},
			{"thread", own(callClone, unix.CLONE_VM|unix.CLONE_THREAD|unix.CLONE_SIGHAND), "allow"},
			{"clone into a user namespace", own(callClone, unix.CLONE_NEWUSER|uint64(unix.SIGCHLD)), "EPERM"},
			{"clone into a mount namespace", own(callClone, unix.CLONE_NEWNS), "EPERM"},
			{"clone into a net namespace", own(callClone, unix.CLONE_NEWNET), "EPERM"},
			{"clone with a flag above 32 bits", own(callClone, aboveLow|unix.CLONE_NEWCGROUP), "EPERM"},
			{"window size", own(callIoctl, 0, unix.TIOCGWINSZ), "allow"},
			{"TIOCSTI", own(callIoctl, 0, unix.TIOCSTI), "EPERM"},
			{"TIOCSTI with a high bit", own(callIoctl, 0, aboveLow|unix.TIOCSTI), "EPERM"},
			{"TIOCLINUX", own(callIoctl, 0, unix.TIOCLINUX), "EPERM"},
			{"TIOCSTI in another argument", own(callIoctl, unix.TIOCSTI, 0, unix.TIOCSTI), "allow"},
			{"unix socket", own(callSocket, unix.AF_UNIX), "allow"},
			{"inet socket", own(callSocket, unix.AF_INET), "allow"},
			{"inet6 socket", own(callSocket, unix.AF_INET6), "allow"},
			{"netlink socket", own(callSocket, unix.AF_NETLINK), "allow"},
			{"vsock", own(callSocket, unix.AF_VSOCK), "EAFNOSUPPORT"},
			{"vsock with a high bit", own(callSocket, aboveLow|unix.AF_VSOCK), "EAFNOSUPPORT"},
			{"unix with a high bit", own(callSocket, aboveLow|unix.AF_UNIX), "allow"},
			{"packet socket", own(callSocket, unix.AF_PACKET), "EAFNOSUPPORT"},
			{"alg socket", own(callSocket, unix.AF_ALG), "EAFNOSUPPORT"},
			{"no family", own(callSocket, 0), "EAFNOSUPPORT"},
			{"unix pair", own(callSocketpair, unix.AF_UNIX), "allow"},
			{"tipc pair", own(callSocketpair, unix.AF_TIPC), "EAFNOSUPPORT"},
			{"i386", call{arch: unix.AUDIT_ARCH_I386, nr: 20}, "kill"},
			{"arm", call{arch: unix.AUDIT_ARCH_ARM, nr: 20}, "kill"},
			{"no architecture", call{nr: 39}, "kill"},
		} {
			if got := verdict(t, arch, tc.call); got != tc.want {
				t.Errorf("%s, %s: %s, want %s", arch, tc.name, got, tc.want)
			}
		}
	}
	x32 := map[int]string{39: "ENOSYS", 272: "ENOSYS", 16: "ENOSYS", 514: "ENOSYS"}
	for nr, want := range x32 {
		if got := verdict(t, "amd64", call{arch: unix.AUDIT_ARCH_X86_64, nr: x32Bit | nr}); got != want {
			t.Errorf("x32 call %d: %s, want %s", nr, got, want)
		}
	}
	if got := verdict(t, "arm64", call{arch: unix.AUDIT_ARCH_X86_64, nr: 39}); got != "kill" {
		t.Errorf("an x86-64 call on arm64: %s, want kill", got)
	}
}

// Every call number that is not in the table is allowed, every one that is gets its
// error: a wrong jump would show.
func TestSeccompWholeRange(t *testing.T) {
	for arch, m := range machines {
		byNr := map[int]denied{}
		for _, d := range deniedCalls {
			byNr[m.nr(d)] = d
		}
		for nr := range 1024 {
			want := "allow"
			if d, ok := byNr[nr]; ok {
				want = unix.ErrnoName(d.errno)
			}
			if nr == m.nr(callSocket) || nr == m.nr(callSocketpair) {
				want = "EAFNOSUPPORT"
			}
			if got := verdict(t, arch, call{arch: m.audit, nr: nr}); got != want {
				t.Errorf("%s, call %d (%s): %s, want %s", arch, nr, byNr[nr].name, got, want)
			}
		}
	}
}

func TestDeniedCallsAreSorted(t *testing.T) {
	if !slices.IsSortedFunc(deniedCalls, func(a, b denied) int { return strings.Compare(a.name, b.name) }) {
		t.Error("deniedCalls is not sorted by name")
	}
	for i, d := range deniedCalls[1:] {
		if d.name == deniedCalls[i].name {
			t.Errorf("%s is listed twice", d.name)
		}
	}
}

// The numbers are those of golang.org/x/sys, which takes them from the kernel's headers.
func TestCallNumbers(t *testing.T) {
	testbox.Need(t, "go")
	var mod struct{ Dir string }
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-json", "golang.org/x/sys").Output()
	if err != nil {
		t.Skipf("needs the source of golang.org/x/sys: %v", err)
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	if mod.Dir == "" {
		t.Skip("needs the source of golang.org/x/sys in the module cache of this user")
	}
	line := regexp.MustCompile(`(?m)^\s*SYS_([A-Z0-9_]+)\s*=\s*([0-9]+)$`)
	for arch, m := range machines {
		text, err := os.ReadFile(filepath.Join(mod.Dir, "unix", "zsysnum_linux_"+arch+".go"))
		if err != nil {
			t.Fatal(err)
		}
		numbers := map[string]int{}
		for _, f := range line.FindAllStringSubmatch(string(text), -1) {
			numbers[strings.ToLower(f[1])], _ = strconv.Atoi(f[2])
		}
		for _, d := range append([]denied{callClone, callIoctl, callSocket, callSocketpair}, deniedCalls...) {
			want, ok := numbers[d.name]
			if !ok {
				want = -1
			}
			if got := m.nr(d); got != want {
				t.Errorf("%s on %s: %d, want %d", d.name, arch, got, want)
			}
		}
	}
}

func TestEncodeIsSockFilter(t *testing.T) {
	raw := []bpf.RawInstruction{{Op: 0x15, Jt: 1, Jf: 2, K: 0xC000_003E}}
	want := binary.NativeEndian.AppendUint32(append(binary.NativeEndian.AppendUint16(nil, 0x15), 1, 2), 0xC000_003E)
	if got := encode(raw); !slices.Equal(got, want) {
		t.Errorf("encode = % x, want % x", got, want)
	}
	if _, ok := machines[runtime.GOARCH]; !ok {
		t.Errorf("this architecture, %s, has no seccomp program", runtime.GOARCH)
	}
}
