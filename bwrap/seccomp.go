package bwrap

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets into struct seccomp_data: nr, arch, and the low half of each argument on a
// little-endian machine. The kernel uses only the low half where a call takes an int or
// flags; a filter that compared 64 bits would be passed by with a bit above them
// (CVE-2019-10063).
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

// x32Bit marks a call of the x32 interface: the same audit architecture as x86-64, with
// other numbers.
const x32Bit = 0x4000_0000

// machine is what differs between architectures.
type machine struct {
	audit uint32
	x32   bool
	nr    func(denied) int
}

var machines = map[string]machine{
	"amd64": {audit: unix.AUDIT_ARCH_X86_64, x32: true, nr: func(d denied) int { return d.amd64 }},
	"arm64": {audit: unix.AUDIT_ARCH_AARCH64, nr: func(d denied) int { return d.arm64 }},
}

// step is an instruction with the reason that the golden listing shows.
type step struct {
	ins  bpf.Instruction
	note string
}

// Seccomp returns the filter of a session for an architecture (a GOARCH; amd64 and
// arm64 are known). It is a list of what is refused:
//
// A call of a foreign architecture (32-bit code by int 0x80) kills the process, since
// its numbers mean other calls; one of x32 gets ENOSYS; the calls of the table get EPERM
// or ENOSYS; clone may make no namespace, ioctl may not type into a terminal, and
// sockets are of four families. Everything else is allowed.
func Seccomp(arch string) ([]bpf.RawInstruction, error) {
	steps, err := assemble(arch)
	if err != nil {
		return nil, err
	}
	list := make([]bpf.Instruction, len(steps))
	for i, s := range steps {
		list[i] = s.ins
	}
	raw, err := bpf.Assemble(list)
	if err != nil {
		return nil, fmt.Errorf("assemble the seccomp program: %w", err)
	}
	return raw, nil
}

func assemble(arch string) ([]step, error) {
	m, ok := machines[arch]
	if !ok {
		return nil, fmt.Errorf("assemble a seccomp program: architecture %q is not known, only amd64 and arm64", arch)
	}
	p := program{machine: m}
	p.load(offArch, "architecture")
	p.unless(bpf.JumpEqual, m.audit, unix.SECCOMP_RET_KILL_PROCESS, "any other is killed")
	p.load(offNr, "call number")
	if m.x32 {
		p.when(bpf.JumpBitsSet, x32Bit, refuse(unix.ENOSYS), "x32")
	}
	// Those with arguments come first: the kernel remembers which numbers are always
	// allowed and runs the program only for these (Linux 5.11).
	p.arguments(callIoctl, 1, func(p *program) { p.noneOf(deniedIoctls, refuse(callIoctl.errno)) })
	p.arguments(callClone, 0, func(p *program) {
		p.when(bpf.JumpBitsSet, deniedCloneFlags, refuse(callClone.errno), "new namespaces")
		p.ret(unix.SECCOMP_RET_ALLOW, "")
	})
	for _, call := range []denied{callSocket, callSocketpair} {
		p.arguments(call, 0, func(p *program) { p.oneOf(allowedFamilies, refuse(call.errno)) })
	}
	for _, d := range deniedCalls {
		if nr := m.nr(d); nr >= 0 {
			p.when(bpf.JumpEqual, uint32(nr), refuse(d.errno), d.name)
		}
	}
	p.ret(unix.SECCOMP_RET_ALLOW, "everything else")
	return p.steps, nil
}

// program collects steps. Each method leaves what it loaded in the accumulator and goes
// on behind its own last step.
type program struct {
	machine machine
	steps   []step
}

func (p *program) add(ins bpf.Instruction, note string) { p.steps = append(p.steps, step{ins, note}) }

func (p *program) load(off uint32, note string) {
	p.add(bpf.LoadAbsolute{Off: off, Size: 4}, note)
}

func (p *program) ret(action uint32, note string) { p.add(bpf.RetConstant{Val: action}, note) }

// when ends the program with action if the accumulator passes the test.
func (p *program) when(cond bpf.JumpTest, val, action uint32, note string) {
	p.add(bpf.JumpIf{Cond: cond, Val: val, SkipFalse: 1}, note)
	p.ret(action, "")
}

// unless ends the program with action if the accumulator does not pass the test.
func (p *program) unless(cond bpf.JumpTest, val, action uint32, note string) {
	p.add(bpf.JumpIf{Cond: cond, Val: val, SkipTrue: 1}, note)
	p.ret(action, "")
}

// arguments judges argument arg (its low 32 bits) of one call by body, which ends the
// program for every value. Other calls skip it.
func (p *program) arguments(call denied, arg uint32, body func(*program)) {
	inner := program{machine: p.machine}
	inner.load(offArgs+8*arg, fmt.Sprintf("argument %d", arg))
	body(&inner)
	p.add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(p.machine.nr(call)), SkipFalse: uint8(len(inner.steps))}, call.name)
	p.steps = append(p.steps, inner.steps...)
}

func (p *program) noneOf(values []uint32, action uint32) {
	for _, v := range values {
		p.when(bpf.JumpEqual, v, action, "")
	}
	p.ret(unix.SECCOMP_RET_ALLOW, "any other")
}

func (p *program) oneOf(values []uint32, action uint32) {
	for _, v := range values {
		p.when(bpf.JumpEqual, v, unix.SECCOMP_RET_ALLOW, "")
	}
	p.ret(action, "any other")
}

func refuse(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// encode gives the program the form that --seccomp reads: an array of the kernel's
// struct sock_filter, in the byte order of the machine.
func encode(raw []bpf.RawInstruction) []byte {
	b := make([]byte, 0, 8*len(raw))
	for _, r := range raw {
		b = binary.NativeEndian.AppendUint16(b, r.Op)
		b = append(b, r.Jt, r.Jf)
		b = binary.NativeEndian.AppendUint32(b, r.K)
	}
	return b
}
